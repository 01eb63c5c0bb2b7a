"""Tests on a real vLLM engine: ``make test-vllm`` runs them in an environment of their own; elsewhere they are not collected."""

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

INSTALLED = importlib.util.find_spec("vllm") is not None
collect_ignore_glob = [] if INSTALLED else ["test_*.py"]

os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")  # GiB
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")


@pytest.fixture(scope="session")
def llama_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.vllm.tiny import save_llama

    return save_llama(tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="session")
def qwen_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.vllm.tiny import save_qwen2_vl

    return save_qwen2_vl(tmp_path_factory.mktemp("qwen"))


@pytest.fixture(scope="session")
def llama(llama_folder: Path) -> Iterator[Any]:
    with engine(llama_folder) as model:
        yield model


@pytest.fixture(scope="session")
def qwen(qwen_folder: Path) -> Iterator[Any]:
    with engine(qwen_folder) as model:
        yield model


def engine(folder: Path, **options: Any) -> Any:
    from agents.models.chat.vllm_chat import VllmChat

    return VllmChat.load(folder, **{"dtype": "float32", "max_batch": 8, "enforce_eager": True, **options})
