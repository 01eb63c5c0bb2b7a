"""Runs before any test module: Hugging Face's libraries read where their cache is, and whether they may ask a hub, at their import."""

import contextlib
import gc
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

_empty = tempfile.TemporaryDirectory(prefix="crag-tests-hub-")
os.environ |= {"HF_HUB_CACHE": _empty.name, "HF_HUB_OFFLINE": "1"}
# Ray reads these once a process. Clusters that tests start one after another have one token: a local one that made its own would have the
# process refuse calls of a cluster that has none.
os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "of-the-tests", "RAY_USAGE_STATS_ENABLED": "0"}

# Tests assert no speed: on a busy machine an example may take long.
settings.register_profile("without deadline", deadline=None)
settings.load_profile("without deadline")

LONG = (
    "evaluation/test_malformed_files.py",
    "faults/test_faults.py",
    "examples/test_examples.py",
    "models/test_vision_and_registry.py",
    "evaluation/test_disk_faults.py",
    "models/test_gguf.py",
    "evaluation/test_calibration.py",
    "models/test_mmproj.py",
    "search/test_index_builder.py",
    "evaluation/test_network.py",
    "evaluation/test_official_calls.py",
    "mini_crag_mm/test_full_pages.py",
    "search/test_soak.py",
)
"""Files that take one of three workers on two cores half a minute and more, the longest first."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the longest files first: a worker takes whole files, and would wait for the other that began a long one last."""
    place = {Path(__file__).parent / name: number for number, name in enumerate(LONG)}
    items.sort(key=lambda item: place.get(item.path, len(place)))


def pytest_collection_finish() -> None:
    """Leave what there is now out of later garbage collections: it stays, and looking through it takes half a second each time."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Remove the empty hub: workers of xdist end without what ``atexit`` holds."""
    _empty.cleanup()


@pytest.fixture(scope="module")
def ray_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Ray cluster of two nodes, as two machines would be, started in another folder; skipped without Ray."""
    pytest.importorskip("ray", reason="Ray is not installed: make test-scale")
    from ray.cluster_utils import Cluster

    with contextlib.chdir(tmp_path_factory.mktemp("nodes")):
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        cluster.add_node(num_cpus=1)
    yield cluster.address
    cluster.shutdown()


@pytest.fixture(autouse=True)
def _no_known_dialects() -> None:
    """Forget what servers refuse: tests reuse ports and names of models."""
    if (module := sys.modules.get("agents.models.chat.dialect")) is not None:
        module.DIALECTS.clear()
