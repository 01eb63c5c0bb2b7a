"""The challenge's rule on models: Llama, or fewer than 1.5 billion parameters."""

import json
from pathlib import Path

import pytest

from agents.settings.run_config import RunConfig, preset_names
from apps.preflight.admission import check_models, judge_model
from apps.preflight.checkpoints import Checkpoint
from tests.models.tiny_checkpoints import save_llama
from tests.support.local_configs import CONFIGS, use_local_configs


def checkpoint(path: str) -> Checkpoint:
    return Checkpoint(path, "transformers", ("chat",), {})


@pytest.mark.parametrize("profile", ["gpu", "gpu_fp8"])
@pytest.mark.parametrize("preset", preset_names())
def test_the_challenge_admits_every_preset_under_its_profiles(preset: str, profile: str) -> None:
    check = check_models(use_local_configs(RunConfig.read(preset, profile)))
    assert check.state == "ok", check.found


def test_weights_that_nobody_can_count_here_are_not_held_for_admitted() -> None:
    check = check_models(use_local_configs(RunConfig.read("best", "gpu_tuned")))
    assert check.state == "skipped" and "aicrowd-kddcup-v9" in check.found and "hf download" in check.fix


def test_qwen_is_refused_by_its_counted_parameters() -> None:
    check = check_models(use_local_configs(RunConfig.read("best", "gpu_qwen")))
    assert check.state == "failed" and "8.29 B" in check.found and "Llama" in check.fix


def test_qwen_is_refused_by_its_name_without_its_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    check = check_models(RunConfig.read("best", "gpu_qwen"))
    assert check.state == "failed" and "7 B parameters by its name" in check.found


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("Qwen--Qwen2.5-1.5B-Instruct", "failed"),  # 1.54 B: rounded down in its name
        ("Qwen--Qwen3-Reranker-0.6B", "ok"),
        ("Salesforce--blip2-itm-vit-g", "ok"),
        ("meta-llama--Llama-3.2-11B-Vision-Instruct", "ok"),
    ],
)
def test_parameters_are_counted_from_the_configuration(name: str, state: str) -> None:
    assert judge_model(checkpoint(str(CONFIGS / name)))[0] == state


@pytest.mark.parametrize(
    ("model", "state"),
    [
        ("nobody/Model-1.5B", "failed"),
        ("nobody/Model-0.5B", "ok"),
        ("nobody/Model-v2.5-14b-chat", "failed"),
        ("nobody/model-without-size", "skipped"),
        ("nobody/model-4bit", "skipped"),  # no size
        ("nobody/Llama-3.2-90B-Vision", "ok"),
    ],
)
def test_a_name_decides_where_there_is_no_configuration(model: str, state: str) -> None:
    assert judge_model(checkpoint(model))[0] == state


def test_a_llama_architecture_of_somebody_else_counts_by_its_size(tmp_path: Path) -> None:
    folder = save_llama(tmp_path / "somebodys-model")
    assert judge_model(checkpoint(str(folder)))[0] == "ok"  # tiny
    config = json.loads((folder / "config.json").read_text())
    config |= {"hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32, "vocab_size": 32000}
    (folder / "config.json").write_text(json.dumps(config))
    larger = folder.rename(tmp_path / "larger")
    assert judge_model(checkpoint(str(larger)))[0] == "failed"
