"""What models take of a GPU: formulas against figures worked out by hand, counts against real checkpoints, problems with what to do."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import safetensors

from agents.profiles.profile import Profile, SearchModels
from agents.settings.presets import Settings, settings_from
from agents.settings.run_config import RunConfig, preset_names
from apps.preflight.architecture import BYTES, ArchitectureError, read_architecture
from apps.preflight.memory import (
    L40S_BYTES,
    MARGIN,
    estimate_alive_bytes,
    estimate_cache_bytes,
    estimate_memory,
)
from tests.models.tiny_checkpoints import save_llama, save_mllama
from tests.support.local_configs import CONFIGS, use_local_configs

LLAMA_11B = str(CONFIGS / "meta-llama--Llama-3.2-11B-Vision-Instruct")
SETTINGS = Settings(stages=("understand", "answer", "finalise"))


def launched(**options: object) -> RunConfig:
    """A chat model alone, with options of its engine."""
    chat = {"kind": "vllm", "path": LLAMA_11B, "dtype": "bfloat16", "context": 4096, **options}
    return RunConfig("p", Profile(name="p", models={"chat": chat}, search=SearchModels(kind="embedded")), SETTINGS)


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
    architecture = read_architecture(LLAMA_11B)
    assert (text, vision, projector) == (9_775_192_080, 863_567_379, 31_461_376)
    assert architecture.parameters == text + vision + projector == 10_670_220_835
    assert architecture.vision_parameters == vision
    (row,) = estimate_memory(launched()).rows
    assert row.weights == 2 * architecture.parameters == 21_340_441_670


def test_sam_keeps_the_biases_of_its_attention() -> None:
    """Heads x positions for each position, twice, beside what any layer keeps; none of it by the tokens of a prompt."""
    sam = {"kind": "sam", "path": str(CONFIGS / "facebook--sam-vit-base"), "batch_size": 2, "device": "cuda"}
    models = {"segmenter": sam, "detector": {"kind": "salient-objects", "network": {"kind": "efficientnet-lite2"}}}
    settings = settings_from({"stages": ["ground", "finalise"], "ground": {"masks": True}})
    (row,) = estimate_memory(
        RunConfig("p", Profile(name="p", models=models, search=SearchModels(kind="embedded")), settings)
    ).rows
    # transformers 5 counts the positional embedding that prompt encoder and decoder share (2 x 128) a second time
    assert row.architecture.parameters in (93_735_472, 93_735_472 + 256)
    assert row.weights == 4 * row.architecture.parameters
    assert row.activations == 2 * 4097 * (6 * 768 + 3 * 3072 + 2 * 12 * 4096) * 4


def test_cache_of_llama_3_2_11b_vision_by_hand() -> None:
    architecture = read_architecture(LLAMA_11B)
    assert architecture.decoder is not None and architecture.vision is not None
    assert architecture.decoder.kv_bytes("bfloat16") == 2 * 40 * 8 * 128 * 2 == 163_840
    assert architecture.vision.cached == 4 * 1601 == 6404
    assert architecture.vision.positions == 4 * 1608
    one = estimate_cache_bytes(architecture.decoder, architecture.vision, "bfloat16", batch=1, context=4096, images=1)
    assert one == (4096 + 6404) * 163_840 == 1_720_320_000
    assert (
        estimate_cache_bytes(architecture.decoder, architecture.vision, "bfloat16", batch=8, context=4096, images=0)
        == 8 * 4096 * 163_840
    )


def test_activations_by_hand() -> None:
    assert estimate_alive_bytes(10, 20, "bfloat16", positions=7) == 7 * (60 + 60) * 2
    (row,) = estimate_memory(launched(max_batch=2, images=1)).rows  # 6404 tokens a pass: those of a picture
    text = 6404 * (6 * 4096 + 3 * 14336) * 2 + 2 * 128256 * 24
    assert row.activations == text + 2 * 6432 * (6 * 1280 + 3 * 5120 + 24576 + 3 * 6432) * 2
    encoder = {
        "kind": "text-encoder",
        "path": "BAAI/bge-large-en-v1.5",
        "device": "cuda",
        "batch_size": 2,
        "max_tokens": 256,
    }
    rules = settings_from({"stages": ["select_entity", "finalise"], "select_entity": {"by": "rules"}})
    config = RunConfig(
        "p", Profile(name="p", models={"text_encoder": encoder}, search=SearchModels(kind="embedded")), rules
    )
    (row,) = estimate_memory(use_local_configs(config)).rows
    assert row.activations == 2 * 256 * (6 * 1024 + 3 * 4096) * BYTES[row.dtype]


@pytest.mark.parametrize(
    ("model", "parameters"),
    [
        # Totals as published with the models' safetensors files; quoted, not read off them here.
        ("meta-llama/Llama-3.2-1B-Instruct", 1_235_814_400),
        ("Qwen/Qwen2.5-VL-7B-Instruct", 8_292_166_656),
        ("Qwen/Qwen3-VL-8B-Instruct", 8_767_123_696),
        ("Qwen/Qwen2.5-1.5B-Instruct", 1_543_714_304),
        ("openai/clip-vit-large-patch14-336", 427_944_193),
        ("BAAI/bge-large-en-v1.5", 335_141_888),
        ("BAAI/bge-reranker-v2-m3", 567_755_777),
        ("Qwen/Qwen3-Reranker-0.6B", 595_776_512),
    ],
)
def test_parameters_by_config_json(model: str, parameters: int) -> None:
    assert read_architecture(str(CONFIGS / model.replace("/", "--"))).parameters == parameters


@pytest.mark.parametrize("save", [save_llama, save_mllama])
def test_a_local_checkpoint_is_counted_as_its_file_holds_it(save: object, tmp_path: Path) -> None:
    folder = save(tmp_path / "model")  # type: ignore[operator]
    counted = 0
    for file in folder.glob("*.safetensors"):
        with safetensors.safe_open(file, framework="pt") as tensors:
            counted += sum(tensors.get_tensor(name).numel() for name in tensors.keys())  # noqa: SIM118 - no mapping
    architecture = read_architecture(str(folder))
    assert architecture.parameters == counted and architecture.dtype == "float32"
    assert bool(architecture.vision) == (save is save_mllama)


def test_a_model_without_configuration_is_named() -> None:
    with pytest.raises(ArchitectureError, match=r"no config\.json of nobody/nothing.*hf download"):
        read_architecture("nobody/nothing")


def test_layers_in_8_bits_take_a_byte_and_the_rest_stays_as_it_is() -> None:
    """The published FP8 checkpoint: linear layers of the language model, without output layer, projector and picture encoder."""
    attention = 2 * 4096 * 4096 + 2 * 4096 * 1024
    architecture = read_architecture(str(CONFIGS / "RedHatAI--Llama-3.2-11B-Vision-Instruct-FP8-dynamic"))
    assert architecture.eight_bit == 40 * (attention + 3 * 4096 * 14336) == 8_724_152_320
    assert architecture.scales == 40 * (4096 + 1024 + 1024 + 4096 + 2 * 14336 + 4096)
    (row,) = estimate_memory(use_local_configs(RunConfig.read("vlm_only", "gpu_fp8"))).rows
    assert architecture.parameters == read_architecture(LLAMA_11B).parameters == 10_670_220_835
    assert (
        row.weights == 2 * (10_670_220_835 - 8_724_152_320) + 8_724_152_320 + 4 * architecture.scales == 12_623_170_630
    )


def test_layers_in_blocks_of_8_bits_have_a_scale_a_block() -> None:
    """Qwen's FP8 checkpoint: linear layers of the language model without the output layer; the picture encoder stays as it is."""
    architecture = read_architecture(str(CONFIGS / "Qwen--Qwen3-VL-8B-Instruct-FP8"))
    attention = 2 * 4096 * 4096 + 2 * 4096 * 1024
    assert architecture.eight_bit == 36 * (attention + 3 * 4096 * 12288)
    assert architecture.scales == 36 * (2 * 32 * 32 + 2 * 32 * 8 + 3 * 32 * 96)
    assert (
        architecture.weight_bytes("bfloat16")
        == 2 * (8_767_123_696 - architecture.eight_bit) + architecture.eight_bit + 4 * architecture.scales
    )


@pytest.mark.parametrize(
    ("ignore", "exact_parts"),
    [
        (["lm_head"], ("lm_head",)),
        (["language_model.lm_head", "re:.*self_attn.*"], ("lm_head", "self_attn")),
        (
            ["re:.*mlp.*", "model.language_model.layers.0.self_attn.q_proj", "lm_head"],
            ("mlp", "layers.0.self_attn.q_proj", "lm_head"),
        ),
    ],
)
def test_unquantised_layers_are_found_by_path_and_by_pattern(
    tmp_path: Path, ignore: list[str], exact_parts: tuple[str, ...]
) -> None:
    folder = save_mllama(tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    group = {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float"}}
    patterns = [*ignore, "re:vision_model.*", "re:multi_modal_projector.*"]
    config["quantization_config"] = {
        "quant_method": "compressed-tensors", "config_groups": {"group_0": group}, "ignore": patterns,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    counted = 0
    for file in folder.glob("*.safetensors"):
        with safetensors.safe_open(file, framework="pt") as tensors:
            for name in tensors.keys():  # noqa: SIM118 - no mapping
                linear = name.endswith("proj.weight") or name.endswith("lm_head.weight")
                if linear and "vision" not in name and not any(part in name for part in exact_parts):
                    counted += tensors.get_tensor(name).numel()
    assert read_architecture(str(folder)).eight_bit == counted > 0


@pytest.mark.parametrize("profile", ["gpu", "gpu_fp8", "gpu_qwen", "gpu_current"])
@pytest.mark.parametrize("preset", preset_names())
def test_every_preset_fits_an_l40s_with_the_numbers_of_the_profile(preset: str, profile: str) -> None:
    memory = estimate_memory(use_local_configs(RunConfig.read(preset, profile)))
    assert memory.problems() == [] and memory.needed <= L40S_BYTES - MARGIN == 46_700_000_000
    (engine,) = (row for row in memory.rows if row.engine)
    assert engine.checkpoint.options["gpu_memory_utilization"] == pytest.approx(memory.least_share(engine))
    share = engine.checkpoint.options["gpu_memory_utilization"] * L40S_BYTES
    assert engine.weights + engine.cache + engine.activations <= share
    assert share + memory.needed - engine.within_share <= L40S_BYTES - MARGIN
    assert f"{memory.needed / 1e9:.2f} of 47.70 GB" in str(memory)


@pytest.mark.parametrize(
    ("options", "messages"),
    [
        ({"max_batch": 16}, ["the GPU has 47.70 GB, of which 1.00 stay free: lower max_batch", "raise it to 1."]),
        ({"dtype": "float32", "max_batch": 1}, ["load a model in bfloat16", "raise it to 1."]),
        ({"max_batch": 8, "gpu_memory_utilization": 0.7}, ["8 requests at once, gpu_memory_utilization = 0.7 gives it 33.39"]),
        ({"gpu_memory_utilization": 0.99, "max_batch": 1}, ["leaves 0.00 GB to all else, which needs 2.17 GB", "itself needs 0.5"]),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_told_with_what_to_change(options: dict[str, Any], messages: list[str]) -> None:
    problems = estimate_memory(launched(**options)).problems()
    assert all(any(part in problem for problem in problems) for part in messages), problems


def test_a_card_of_24_gb_holds_every_preset_in_8_bits() -> None:
    """An L4, the smallest card of that size: torch reports 22.5 GiB."""
    card = 24_150_000_000
    for preset in preset_names():
        memory = estimate_memory(use_local_configs(RunConfig.read(preset, "gpu_current_fp8")), card)
        (engine,) = (row for row in memory.rows if row.engine)
        assert memory.problems() == [] and memory.needed <= card - MARGIN
        assert engine.checkpoint.options["gpu_memory_utilization"] == pytest.approx(memory.least_share(engine))


def test_deformable_attention_of_the_detector_by_hand() -> None:
    """Sampled values of 8 heads of 32, 4 levels and 4 points, three times, for each position of four feature maps."""
    folder = CONFIGS / "IDEA-Research--grounding-dino-base"
    detector = {"kind": "grounding-dino", "path": str(folder), "batch_size": 2, "device": "cuda"}
    profile = Profile(name="p", models={"detector": detector}, search=SearchModels(kind="embedded"))
    config = RunConfig("p", profile, settings_from({"stages": ["ground", "finalise"]}))
    (row,) = estimate_memory(config).rows
    positions = 16_662 + 4_165 + 1_041 + 260  # 800 x 1333 pixels by 8, 16, 32 and 64
    widest = 6 * 256 + 3 * 2048
    assert row.activations == 2 * positions * (widest + 3 * 8 * 32 * 4 * 4) * 4


def test_the_cross_attention_mask_fits_where_the_picture_encoder_was() -> None:
    """Three tensors of all tokens of a pass by the tokens of all its pictures: vLLM does not profile them."""
    with_pictures, text = (
        estimate_memory(launched(max_batch=4, images=images)).rows[0].activations for images in (1, 0)
    )
    assert with_pictures - text > 3 * 6404 * (4 * 6404) * 2


def test_an_engine_has_to_take_the_pictures_of_the_preset() -> None:
    settings = settings_from({"stages": ["entries", "four_steps", "finalise"]})
    config = launched(max_batch=1)
    models = {**config.profile.models, "reranker": {"kind": "cosine", "encoder": {"kind": "minilm"}}}
    profile = config.profile.model_copy(update={"models": models})
    (problem,) = estimate_memory(dataclasses.replace(config, profile=profile, settings=settings)).problems()
    assert problem.endswith("images = 6")


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
    settings = settings_from({"stages": ["select_entity", "rerank", "finalise"], "select_entity": {"by": "rules"}})
    memory = estimate_memory(use_local_configs(RunConfig("p", profile, settings)))
    weights = sum(row.weights for row in memory.rows)
    assert len(memory.rows) == 2
    assert memory.needed == weights + max(row.activations for row in memory.rows) + memory.context
