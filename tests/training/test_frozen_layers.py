"""Lower layers whose output is kept on disk: the same losses, gradients and adapters as without, and fewer layers to compute."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from tests.models.tiny_checkpoints import tokenizer
from tests.training.test_sft import run_sft
from tests.training.tiny_data import SAVE, example, loaded, save_examples
from training import fit
from training.chat_examples import TrainingDataError
from training.encoding import SampleEncoder, SampleGroup
from training.fit import load_trainable
from training.frozen_layers import FROZEN, cache_frozen_layers
from training.recipes import DataTable, load_recipe
from training.sft import select_samples

FIRST = 2
RECIPE = ("lora.r=4", f"lora.first_layer={FIRST}", "training.dtype=float32")


def save_qwen2(folder: Path) -> Path:
    torch.manual_seed(0)
    words = tokenizer()
    config = Qwen2Config(
        vocab_size=len(words),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        initializer_range=0.2,
        bos_token_id=words.bos_token_id,
        eos_token_id=words.eos_token_id,
        pad_token_id=words.pad_token_id,
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)
    words.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def qwen2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_qwen2(tmp_path_factory.mktemp("qwen2") / "qwen2")


def trained_on(model: Any, inputs: dict[str, torch.Tensor]) -> tuple[float, dict[str, torch.Tensor]]:
    """Loss and gradients of a row."""
    model.zero_grad()
    loss = model(**inputs).loss
    loss.backward()
    return float(loss.detach()), {
        name: value.grad.clone() for name, value in model.named_parameters() if value.grad is not None
    }


@pytest.mark.parametrize("packed", [False, True])
def test_losses_and_gradients_are_those_of_the_whole_model(qwen2: Path, tmp_path: Path, packed: bool) -> None:
    checkpoint, model = load_trainable(qwen2, load_recipe("qwen_coder_cpu", RECIPE))
    for name, value in model.named_parameters():  # fresh adapters are 0 and would have no gradient in one half
        if "lora_B" in name:
            torch.nn.init.normal_(value, std=0.1)
    encoder = SampleEncoder(checkpoint)
    rows = loaded(tmp_path / "data", example(0), example(1, "miss", query="Who?"))
    group = SampleGroup(tuple(select_samples(rows, DataTable())), packed=packed)
    loss, gradients = trained_on(model, encoder.encode(group))
    with cache_frozen_layers(model, FIRST, tmp_path, encoder.encode) as upper:
        first = upper(group)
        again = upper(group)  # from disk
        assert "input_ids" not in first and torch.equal(first["inputs_embeds"], again["inputs_embeds"])
        found, others = trained_on(model, again)
    assert found == pytest.approx(loss, rel=1e-6)
    assert set(others) == set(gradients) and all("lora_" in name for name in gradients)
    for name, gradient in gradients.items():
        torch.testing.assert_close(others[name], gradient)
    assert trained_on(model, encoder.encode(group))[0] == pytest.approx(loss, rel=1e-6)  # the layers are there again


def test_adapters_are_on_the_upper_layers_alone(qwen2: Path) -> None:
    _, model = load_trainable(qwen2, load_recipe("qwen_coder_cpu", RECIPE))
    names = [name for name, value in model.named_parameters() if value.requires_grad]
    assert {int(name.split(".layers.")[1].split(".")[0]) for name in names} == {2, 3}


def train(qwen2: Path, data: Path, out: Path, *more: str) -> dict[str, Any]:
    changes = [word for change in (*RECIPE, "training.save_steps=1", *more) for word in ("--set", change)]
    return run_sft(data, qwen2, out, "--cache", str(out.parent / "cache"), "--max-steps", "4", *changes)


def test_a_training_ends_as_without_and_one_stopped_at_any_step_goes_on(
    qwen2: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [example(number, "correct" if number % 2 else "miss") for number in range(12)]
    data = save_examples(tmp_path / "data", rows, [example(20)])
    kept = "training.frozen_cache=true"
    wanted = train(qwen2, data, tmp_path / "plain", "training.packing=false")
    whole = train(qwen2, data, tmp_path / "whole", "training.packing=false", kept)
    assert whole["held_out_loss"]["after"] == pytest.approx(wanted["held_out_loss"]["after"], rel=1e-4)
    assert whole["held_out_loss"]["after"] < whole["held_out_loss"]["before"]

    [folder] = (tmp_path / "cache" / FROZEN).iterdir()
    kept_rows = sorted(folder.iterdir())

    save = fit.Trainer._save_checkpoint
    saved = 0

    def killed(self: Any, *arguments: Any, **options: Any) -> None:
        nonlocal saved
        save(self, *arguments, **options)
        saved += 1
        if saved < 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(fit.Trainer, "_save_checkpoint", killed)
    out = tmp_path / "stopped"
    words = ["--set", "training.packing=false", "--set", kept, "--resume"]
    changes = [word for change in (*RECIPE, "training.save_steps=1") for word in ("--set", change)]
    places = ["--cache", str(tmp_path / "cache"), "--max-steps", "4"]
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            run_sft(data, qwen2, out, *places, *changes, *words)
    stopped = run_sft(data, qwen2, out, *places, *changes, *words)
    assert stopped["steps"] == 4
    assert stopped["held_out_loss"]["after"] == pytest.approx(whole["held_out_loss"]["after"], rel=1e-4)
    assert sorted(folder.iterdir()) == kept_rows  # the stopped training took over what the whole one had kept


def test_what_cannot_be_kept_is_told(qwen2: Path, tmp_path: Path) -> None:
    _, model = load_trainable(qwen2, load_recipe("qwen_coder_cpu", RECIPE))
    for first in (0, 3, 4):  # none below, one with adapters below, none above
        with pytest.raises(TrainingDataError, match="first_layer"), cache_frozen_layers(model, first, tmp_path, dict):
            pass
    _, other = load_trainable(SAVE["mllama"](tmp_path / "mllama"), load_recipe("nvidia", ["training.dtype=float32"]))
    with pytest.raises(TrainingDataError, match="text models"), cache_frozen_layers(other, 1, tmp_path, dict):
        pass
