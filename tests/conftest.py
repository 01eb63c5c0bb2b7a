"""Runs before any test module: Hugging Face's libraries read where their cache is when they are first imported."""

import contextlib
import os
from collections.abc import Iterator

import pytest

from agents.search.hub import use_local_hub

use_local_hub()


@pytest.fixture(scope="module")
def ray_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Ray cluster of two nodes, as two machines would be, started in another folder; skipped without Ray."""
    pytest.importorskip("ray", reason="Ray is not installed: make test-scale")
    from ray.cluster_utils import Cluster

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    with contextlib.chdir(tmp_path_factory.mktemp("nodes")):
        made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        made.add_node(num_cpus=1)
    yield made.address
    made.shutdown()
