"""Memory and time of a recipe from a model's configuration."""

from pathlib import Path

import pytest

from agents.models.architecture import Architecture, Decoder, read_architecture
from tests.support.local_configs import CONFIGS
from tests.training.tiny_data import SAVE
from training import plan
from training.fit import load_trainable
from training.plan import CARDS, GIB, Load, count_activation_bytes, count_lora_parameters, estimate
from training.recipes import load_recipe

SMALL = Decoder(layers=2, kv_heads=2, head_dim=4, hidden=16, intermediate=32, vocabulary=100, context=512)
MODEL = Architecture("m", "llama", "bfloat16", 10_000, 0, 1_600, SMALL, None)


def test_the_parts_by_hand() -> None:
    # A layer: q and o 16 to 16, k and v 16 to 8, gate, up and down between 16 and 32; r 2.
    assert count_lora_parameters(SMALL, 2) == 2 * 2 * (2 * 32 + 2 * 24 + 3 * 48)
    assert count_activation_bytes(SMALL) == 2 * (5 * 16 + 2 * 8 + 4 * 32)
    recipe = load_recipe("nvidia", ["training.max_tokens=10", "training.batch=3", "lora.r=2"])
    parts = estimate(MODEL, recipe, Load(samples=5, tokens=6, reply=2, images=0))
    assert parts.weights == 20_000
    assert parts.adapters == count_lora_parameters(SMALL, 2) * 16
    assert parts.activations == 30 * (2 * 2 * 16 + 2 * count_activation_bytes(SMALL))
    assert parts.logits == 30 * 100 * 10
    assert parts.training_flops == 5 * 8 * 6 * (10_000 - 1_600)
    assert parts.memory == 20_000 + parts.adapters + 1.1 * (parts.activations + parts.logits) + GIB


def test_checkpointing_trades_memory_for_time() -> None:
    load = Load(images=0)
    with_it = estimate(MODEL, load_recipe("nvidia"), load)
    without = estimate(MODEL, load_recipe("nvidia", ["training.checkpointing=false"]), load)
    assert with_it.activations < without.activations
    assert with_it.training_flops == without.training_flops * 6 / 4
    assert with_it.hours(CARDS[0], 2) == pytest.approx(2 * with_it.hours(CARDS[0], 1))


def test_grpo_needs_a_cache_and_decodes() -> None:
    recipe = load_recipe("curriculum")
    parts = estimate(MODEL, recipe, Load(images=0), "grpo")
    assert parts.cache > 0 and parts.decoded_bytes > 0 and parts.logits == 0
    assert parts.training_flops > estimate(MODEL, recipe, Load(images=0), "sft").training_flops


def test_two_cores_compute_in_float32_alone(capsys: pytest.CaptureFixture[str]) -> None:
    model = str(CONFIGS / "meta-llama--Llama-3.2-1B-Instruct")
    recipes = ["--recipe", "nvidia", "--recipe", "smollm2"]
    assert plan.main(["--model", model, *recipes, "--tokens", "400", "--reply", "10", "--images", "0"]) == 0
    *_, gpu, cpu = capsys.readouterr().out.splitlines()
    assert gpu.endswith("| not in bfloat16 |") and cpu.split(" | ")[-1].startswith("yes; ")


@pytest.mark.parametrize("kind", sorted(SAVE))
def test_adapters_are_counted_as_peft_makes_them(kind: str, tmp_path: Path) -> None:
    folder = SAVE[kind](tmp_path / kind)
    recipe = load_recipe("nvidia")
    _, model = load_trainable(folder, recipe)
    trained = sum(value.numel() for value in model.parameters() if value.requires_grad)
    decoder = read_architecture(str(folder)).decoder
    assert decoder is not None and count_lora_parameters(decoder, recipe.lora.r) == trained


def test_the_table_has_a_row_for_each_recipe(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        plan.main(
            [
                "--model",
                str(CONFIGS / "meta-llama--Llama-3.2-1B-Instruct"),
                "--recipe",
                "nvidia",
                "--recipe",
                "curriculum",
            ]
        )
        == 0
    )
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4 and lines[2].startswith("| nvidia | sft | r 16 | 2.3 |") and "yes; " in lines[2]
    assert plan.main(["--model", "nobody/nothing"]) == 2
    assert "config.json" in capsys.readouterr().err
    assert plan.main(["--model", "BAAI/bge-reranker-v2-m3"]) == 2
