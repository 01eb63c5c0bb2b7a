"""The memory plan: formulas against figures worked out by hand, counts against real checkpoints, refusals with their mend."""

from __future__ import annotations

from pathlib import Path

import pytest
import safetensors

from agents import memory_plan
from agents.launch import preset_names
from agents.memory_plan import MemoryPlanError, require_fit, with_planned_memory
from agents.prompts import PromptLibrary
from agents.runtime.architecture import ArchitectureError, Decoder, Vision, architecture_of, known_models
from agents.runtime.memory import (
    cache_bytes,
    decoder_activation_bytes,
    encoder_activation_bytes,
    vision_activation_bytes,
    weight_bytes,
)
from agents.runtime.plan import L40S_BYTES, PLANNED, plan_memory
from agents.runtime.plan_changes import what_would_fit
from agents.settings import PROMPTS, Profile, SearchModels, Settings, load_profile, load_settings, settings_from
from tests.models.tiny_checkpoints import save_llama, save_mllama

LIBRARY = PromptLibrary(PROMPTS)
LLAMA_11B = "meta-llama/Llama-3.2-11B-Vision-Instruct"
SETTINGS = Settings(stages=("understand", "answer", "finalise"))


def engine_profile(**options: object) -> Profile:
    chat = {"kind": "vllm", "path": LLAMA_11B, "dtype": "bfloat16", "context": 4096, **options}
    return Profile(name="p", models={"chat": chat}, search=SearchModels(kind="embedded"))


def test_parameters_of_llama_3_2_11b_vision_by_hand() -> None:
    attention = 2 * 4096 * 4096 + 2 * 4096 * 1024
    mlp = 3 * 4096 * 14336
    layer = attention + mlp + 2 * 4096
    crossing = layer + 2 * 128 + 2  # norms of queries and keys, two gates
    text = (128256 + 8) * 4096 + 128256 * 4096 + 32 * layer + 8 * crossing + 4096
    tile = 40 * 40 + 1
    picture_layer = 4 * 1280 * 1280 + (2 * 1280 * 5120 + 5120 + 1280) + 4 * 1280
    vision = (
        3 * 14 * 14 * 1280 + 1280 + 4 * 1280  # patches, class token, first and last norm
        + 1 + tile * 1280 + 9 * 4 * tile * 1280  # gated positions, by aspect ratio and tile
        + 2 * (9 * 4 * 1280 + 1)  # tile embeddings before and after
        + 32 * picture_layer + 8 * (picture_layer + 2)
    )  # fmt: skip
    projector = 7680 * 4096 + 4096
    found = architecture_of(LLAMA_11B)
    assert (text, vision, projector) == (9_775_192_080, 863_567_379, 31_461_376)
    assert found.parameters == text + vision + projector == 10_670_220_835
    assert found.vision_parameters == vision
    assert weight_bytes(found.parameters, "bfloat16") == 21_340_441_670


def test_cache_of_llama_3_2_11b_vision_by_hand() -> None:
    found = architecture_of(LLAMA_11B)
    assert found.decoder is not None and found.vision is not None
    assert found.decoder.kv_bytes("bfloat16") == 2 * 40 * 8 * 128 * 2 == 163_840
    assert found.vision.cached == 4 * 1601 == 6404
    assert found.vision.positions == 4 * 1608
    one = cache_bytes(found.decoder, found.vision, "bfloat16", batch=1, context=4096, images=1)
    assert one == (4096 + 6404) * 163_840 == 1_720_320_000
    assert cache_bytes(found.decoder, found.vision, "bfloat16", batch=8, context=4096, images=0) == 8 * 4096 * 163_840


def test_activations_by_hand() -> None:
    decoder = Decoder(layers=2, kv_heads=1, head_dim=4, hidden=10, intermediate=20, vocabulary=100, context=64)
    assert decoder_activation_bytes(decoder, "bfloat16", tokens=7, batch=3) == 7 * (60 + 60) * 2 + 3 * 100 * 24
    vision = Vision(cached=8, positions=8, hidden=10, intermediate=20, kept=30, masked=True)
    assert vision_activation_bytes(vision, "bfloat16", pictures=2) == 2 * 8 * (60 + 60 + 30 + 3 * 8) * 2
    bert = architecture_of("BAAI/bge-large-en-v1.5")
    assert encoder_activation_bytes(bert, "float32", batch=2, most_tokens=256) == 2 * 256 * (6 * 1024 + 3 * 4096) * 4


@pytest.mark.parametrize(
    ("model", "parameters"),
    [
        # Totals as published with the models' safetensors files; quoted, not read off them here.
        ("meta-llama/Llama-3.2-1B-Instruct", 1_235_814_400),
        ("meta-llama/Llama-3.2-3B-Instruct", 3_212_749_824),
        ("openai/clip-vit-large-patch14-336", 427_944_193),
        ("BAAI/bge-large-en-v1.5", 335_141_888),
        ("BAAI/bge-reranker-v2-m3", 567_755_777),
        ("Qwen/Qwen3-Reranker-0.6B", 595_776_512),
    ],
)
def test_parameters_of_shipped_configurations(model: str, parameters: int) -> None:
    assert architecture_of(model).parameters == parameters


def test_every_shipped_configuration_says_where_it_is_from() -> None:
    for model in known_models():
        found = architecture_of(model)
        assert found.parameters > 0 and len(found.source) > 20


@pytest.mark.parametrize("save", [save_llama, save_mllama])
def test_a_local_checkpoint_is_counted_as_its_file_holds_it(save: object, tmp_path: Path) -> None:
    folder = save(tmp_path / "model")  # type: ignore[operator]
    counted = 0
    for file in folder.glob("*.safetensors"):
        with safetensors.safe_open(file, framework="pt") as tensors:
            counted += sum(tensors.get_tensor(name).numel() for name in tensors.keys())  # noqa: SIM118 - no mapping
    found = architecture_of(str(folder))
    assert found.parameters == counted and found.dtype == "float32"
    assert weight_bytes(found.parameters, "float32") == 4 * counted
    assert bool(found.vision) == (save is save_mllama)


def test_a_model_without_configuration_is_named() -> None:
    with pytest.raises(ArchitectureError, match="nobody/nothing"):
        architecture_of("nobody/nothing")


@pytest.mark.parametrize("preset", preset_names())
def test_every_preset_fits_an_l40s_and_leaves_the_engine_what_it_needs(preset: str) -> None:
    settings, profile = load_settings(preset, "gpu"), load_profile("gpu")
    plan = plan_memory(settings, profile, LIBRARY)
    require_fit(plan, settings, profile, LIBRARY)
    (engine,) = (row for row in plan.rows if row.engine)
    share = plan.utilization(LLAMA_11B)
    assert share <= 0.95
    assert engine.weights + engine.cache + engine.activations <= (share + 0.01) * L40S_BYTES
    outside = plan.needed - engine.total + engine.other
    assert share * L40S_BYTES + outside <= L40S_BYTES


def test_what_does_not_fit_is_refused_with_the_change_that_makes_it_fit() -> None:
    profile = engine_profile(max_batch=16)
    plan = plan_memory(SETTINGS, profile, LIBRARY)
    assert not plan.fits
    with pytest.raises(MemoryPlanError, match="max_batch = 9 for meta-llama"):
        require_fit(plan, SETTINGS, profile, LIBRARY)
    assert plan_memory(SETTINGS, engine_profile(max_batch=9), LIBRARY).fits
    assert not plan_memory(SETTINGS, engine_profile(max_batch=10), LIBRARY).fits


def test_a_type_too_wide_is_the_first_thing_to_change() -> None:
    profile = engine_profile(dtype="float32", max_batch=1)
    assert what_would_fit(SETTINGS, profile, LIBRARY, L40S_BYTES).startswith("dtype = 'bfloat16'")


def test_what_no_change_makes_fit_is_said() -> None:
    assert "smaller model" in what_would_fit(SETTINGS, engine_profile(max_batch=4), LIBRARY, 20_000_000_000)


def test_the_plan_fills_in_what_a_profile_leaves_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_plan, "machine_bytes", lambda: None)
    profile = engine_profile(max_batch=PLANNED, images=PLANNED, gpu_memory_utilization=PLANNED)
    chat = with_planned_memory(SETTINGS, profile, LIBRARY).models["chat"]
    assert chat["max_batch"] == 9 and chat["images"] == 1 and 0.8 < chat["gpu_memory_utilization"] <= 0.95
    monkeypatch.setattr(memory_plan, "machine_bytes", lambda: 24_000_000_000)
    with pytest.raises(MemoryPlanError, match=r"24\.00 GB"):
        with_planned_memory(SETTINGS, profile, LIBRARY)
    untouched = engine_profile(max_batch=2)
    assert with_planned_memory(SETTINGS, untouched, LIBRARY) is untouched


def test_activations_of_models_that_run_in_turn_are_counted_once() -> None:
    encoder = {"kind": "text-encoder", "path": "BAAI/bge-large-en-v1.5", "device": "cuda"}
    profile = Profile(
        name="p",
        models={
            "text_encoder": encoder,
            "reranker": {"kind": "flag-reranker", "path": "BAAI/bge-reranker-v2-m3", "device": "cuda"},
        },
        search=SearchModels(kind="embedded"),
    )
    settings = settings_from({"stages": ["select_entity", "rerank"], "select_entity": {"by": "rules"}})
    plan = plan_memory(settings, profile, LIBRARY)
    weights = sum(row.weights for row in plan.rows)
    assert len(plan.rows) == 2
    assert plan.needed == weights + max(row.activations for row in plan.rows) + plan.context


def test_the_command_prints_the_plan_and_its_status(capsys: pytest.CaptureFixture[str]) -> None:
    assert memory_plan.main(["--preset", "vlm_only"]) == 0
    assert "gpu_memory_utilization" in capsys.readouterr().out
    assert memory_plan.main(["--preset", "vlm_only", "--max-batch", "16"]) == 1
    assert "max_batch = " in capsys.readouterr().err
    assert memory_plan.main(["--preset", "nothing"]) == 1
    assert "nothing" in capsys.readouterr().err
