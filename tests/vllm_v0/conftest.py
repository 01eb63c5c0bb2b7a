"""Tests of Llama-3.2-Vision on vLLM 0.10.2's V0 engine: ``make test-v0`` runs them in an environment of their own.

Elsewhere they are not collected.
"""

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

INSTALLED = importlib.util.find_spec("vllm_v0_cpu") is not None
collect_ignore_glob = [] if INSTALLED else ["test_*.py"]

os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")  # GiB
os.environ.setdefault("VLLM_LOGGING_LEVEL", "CRITICAL")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

CONTEXT = 1024


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.vllm.tiny import save_mllama

    return save_mllama(tmp_path_factory.mktemp("mllama"))


@pytest.fixture(scope="session")
def model(folder: Path) -> Iterator[Any]:
    with engine(folder) as loaded:
        yield loaded


def engine(folder: Path, **options: Any) -> Any:
    from agents.models.chat.vllm_chat import VllmChat

    defaults = {"dtype": "float32", "max_batch": 8, "enforce_eager": True, "context": CONTEXT}
    return VllmChat.load(folder, **{**defaults, **options})
