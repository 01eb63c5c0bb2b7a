"""Refusal fine-tuning on tiny checkpoints: what is learned, on which tokens, packed or not, stopped and resumed, merged."""

import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agents.models.base import ChatReply
from agents.models.chat.transformers_chat import TransformersChat
from agents.models.chat.transformers_checkpoint import load_checkpoint
from evaluation.judge.rule_judge import RuleJudge
from evaluation.records import Verdict
from tests.agent.scripted import ScriptedChat
from tests.training.tiny_data import SAVE, example, save_and_load, save_examples
from training import merge, sft
from training.chat_examples import TrainingDataError
from training.command_line import ABOUT
from training.encoding import IGNORED, Sample, SampleEncoder, SampleGroup, group_samples
from training.fit import CHECKPOINTS, FINGERPRINT, claim_folder, disable_cache, load_trainable
from training.recipes import DataTable, LoraTable, list_recipes, load_recipe
from training.sft import count_kinds, select_samples

KINDS = sorted(SAVE)


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {kind: save(tmp_path_factory.mktemp(kind) / kind) for kind, save in SAVE.items()}


def test_own_answers_where_right_and_refusals_elsewhere() -> None:
    rows = [example(0), example(1, "hallucination"), example(2, "miss"), example(3, form="queries", reply="tower"),
            example(4, "miss", form="queries", reply="tower"), example(5, form="yes or no", prompt="relevance", reply="No"),
            example(6, form="verdict", reply="Correct")]  # fmt: skip
    everything = DataTable(tasks=("answer", "queries", "relevance"))
    assert [(sample.kind, sample.reply) for sample in select_samples(rows, everything)] == [
        ("answer", "It is 330 metres tall."),
        ("refusal", "I don't know"),
        ("refusal", "I don't know"),
        ("queries", "tower"),
        ("relevance", "No"),
    ]
    assert [sample.kind for sample in select_samples(rows, DataTable())] == ["answer", "refusal", "refusal"]
    other = [example(0, truth="330 metres")]
    assert select_samples(other, DataTable(answers="reference"))[0].reply == "330 metres"


def test_cut_queries_are_not_learned() -> None:
    rows = [example(0, form="queries", reply="tower"), example(1, form="queries", reply="tower; who bu")]
    samples = select_samples([rows[0], replace(rows[1], finish_reason="length")], DataTable(tasks=("queries",)))
    assert [sample.reply for sample in samples] == ["tower"]


def test_a_cut_reply_is_measured_as_the_answer_that_the_agent_gives() -> None:
    replies = iter(["It is 330 metres tall. It was", "It is 12 metres", "It is 12 metres tall. It was"])
    model = ScriptedChat(lambda _: ChatReply(next(replies), "length"))
    rates = sft.measure(model, [example(n) for n in range(3)], RuleJudge())
    assert [round(3 * rates[name]) for name in ("accuracy", "missing", "hallucination")] == [1, 1, 1]


def test_replies_that_the_judge_failed_on_are_counted_apart() -> None:
    class Silent(RuleJudge):
        def judge(self, item: Any) -> Verdict:
            return super().judge(item) if "330" in item.response else Verdict(False, "no reply", failed=True)

    replies = iter(["It is 330 metres tall.", "It is 12 metres tall."])
    rates = sft.measure(ScriptedChat(lambda _: ChatReply(next(replies), "stop")), [example(0), example(1)], Silent())
    assert (rates["questions"], rates["not_judged"], rates["accuracy"], rates["hallucination"]) == (1, 1, 1.0, 0.0)


def test_a_greater_share_of_refusals_left_out_leaves_out_more_of_the_same() -> None:
    rows = [example(number, "hallucination" if number % 2 else "correct") for number in range(400)]
    refusals = {
        share: {
            sample.example.session_id
            for sample in select_samples(rows, DataTable(refusals_left_out=share))
            if sample.kind == "refusal"
        }
        for share in (0.0, 0.3, 0.7, 1.0)
    }
    assert refusals[1.0] == set() and len(refusals[0.0]) == 200
    assert refusals[0.7] < refusals[0.3] < refusals[0.0]
    assert abs(len(refusals[0.3]) - 140) < 25
    assert count_kinds(select_samples(rows, DataTable(refusals_left_out=1.0))) == {"answer": 200}


@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_is_on_the_reply_alone_and_the_prompt_is_the_served_one(
    kind: str, checkpoints: dict[str, Path], tmp_path: Path
) -> None:
    checkpoint = load_checkpoint(checkpoints[kind])
    encoder = SampleEncoder(checkpoint)
    images = ("a",) if checkpoint.sees else ()
    short, long = select_samples(
        save_and_load(tmp_path, example(0, images=images), example(1, "miss", images=images)), DataTable()
    )
    inputs = encoder.encode(SampleGroup((short, long)))
    for row, sample in enumerate((short, long)):
        learned = inputs["labels"][row][inputs["labels"][row] != IGNORED].tolist()
        assert learned == encoder.reply_ids(sample.reply)
        messages = sample.example.load_messages()
        rendered = checkpoint.render(messages)
        prompt = checkpoint.inputs([rendered], [[image for message in messages for image in message.images]])
        token_ids = inputs["input_ids"][row][inputs["attention_mask"][row] == 1].tolist()
        assert token_ids == prompt["input_ids"][0].tolist() + learned


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sighted", [False, True])
def test_a_batch_has_the_loss_of_its_rows(
    kind: str, sighted: bool, checkpoints: dict[str, Path], tmp_path: Path
) -> None:
    checkpoint = load_checkpoint(checkpoints[kind])
    if sighted and not checkpoint.sees:
        return
    encoder = SampleEncoder(checkpoint)
    names: list[tuple[str, ...]] = [("a",), ("b",)] if sighted else [(), ()]
    rows = save_and_load(tmp_path, example(0, images=names[0]), example(1, "miss", images=names[1], query="Who?"))
    samples = select_samples(rows, DataTable())
    alone = [summed_loss(checkpoint, encoder.pad([sample])) for sample in samples]
    assert summed_loss(checkpoint, encoder.pad(samples)) == pytest.approx(sum(alone), rel=2e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_packed_samples_do_not_see_each_other(kind: str, checkpoints: dict[str, Path], tmp_path: Path) -> None:
    checkpoint = load_checkpoint(checkpoints[kind])
    disable_cache(checkpoint.model)
    encoder = SampleEncoder(checkpoint)
    if not encoder.can_pack:
        return
    samples = select_samples(
        save_and_load(tmp_path, example(0), example(1, "miss", query="Who?"), example(2)), DataTable()
    )
    alone = sum(summed_loss(checkpoint, encoder.pad([sample])) for sample in samples)
    packed = encoder.encode(SampleGroup(tuple(samples), packed=True))
    assert packed["input_ids"].shape[0] == 1
    assert summed_loss(checkpoint, packed) == pytest.approx(alone, rel=2e-4)


def summed_loss(checkpoint: Any, inputs: dict[str, torch.Tensor]) -> float:
    with torch.no_grad():
        loss = checkpoint.model(**inputs).loss
    return float(loss) * int((inputs["labels"] != IGNORED).sum())


@given(st.lists(st.integers(1, 50), max_size=40), st.integers(50, 120), st.booleans(), st.integers(1, 4))
def test_every_sample_is_in_one_group_and_no_pack_is_too_long(
    lengths: list[int], limit: int, packing: bool, batch: int
) -> None:
    samples = [
        Sample(example(n, images=("a",) if length % 3 == 0 else ()), "x", "answer") for n, length in enumerate(lengths)
    ]
    length_by_session = {sample.example.session_id: length for sample, length in zip(samples, lengths, strict=True)}
    groups = group_samples(samples, lengths, batch=batch, max_tokens=limit, packing=packing)
    assert Counter(sample.example.session_id for group in groups for sample in group.samples) == Counter(
        list(length_by_session)
    )
    for group in groups:
        assert len({bool(sample.example.images) for sample in group.samples}) == 1
        if group.packed:
            assert sum(length_by_session[sample.example.session_id] for sample in group.samples) <= limit
            assert not group.samples[0].example.images
        else:
            assert len(group.samples) <= batch


def list_arguments(data: Path, model: Path, out: Path, *more: str) -> list[str]:
    fixed = f"--data {data} --model {model} --recipe smollm2 --out {out} --eval-model None".split()
    small = ["training.learning_rate=0.02", "training.accumulation=2", "data.refusals_left_out=0", "lora.r=4"]
    return [*fixed, *(word for change in small for word in ("--set", change)), *more]


def run_sft(data: Path, model: Path, out: Path, *more: str) -> dict[str, Any]:
    assert sft.main(list_arguments(data, model, out, *more)) == 0
    about: dict[str, Any] = json.loads((out / ABOUT).read_text())
    return about


@pytest.mark.parametrize("kind", KINDS)
def test_training_lowers_the_held_out_loss_and_the_merged_weights_give_the_same(
    kind: str, checkpoints: dict[str, Path], tmp_path: Path
) -> None:
    images = ("a",) if kind != "llama" else ()
    train = [example(n, "correct" if n % 2 else "miss", images=images if n % 3 else ()) for n in range(12)]
    data = save_examples(tmp_path / "data", train, [example(20), example(21, "miss", images=images)])
    changes = ["--set", "training.dtype=bfloat16", "--set", "training.checkpointing=true"] if kind == "mllama" else []
    about = run_sft(data, checkpoints[kind], tmp_path / "out", "--max-steps", "6", "--measure", *changes)
    assert about["samples"] == {"answer": 6, "refusal": 6} and about["too_long"] == 0
    assert about["held_out_loss"]["after"] < about["held_out_loss"]["before"]
    assert about["held_out_replies"]["after"]["questions"] == 2
    assert (tmp_path / "out" / "curves.png").stat().st_size > 1000
    assert {"loss", "eval_loss"} <= {
        key for row in json.loads((tmp_path / "out" / "curves.json").read_text()) for key in row
    }

    merged = tmp_path / "merged"
    assert merge.main(["--adapter", str(tmp_path / "out" / "adapter"), "--out", str(merged), "--dtype", "float32"]) == 0
    from peft import PeftModel

    base = load_checkpoint(checkpoints[kind], dtype="float32")
    samples = select_samples(save_and_load(tmp_path / "more", example(30, images=images)), DataTable())
    before = logits(base, samples)
    adapted = PeftModel.from_pretrained(base.model, str(tmp_path / "out" / "adapter")).eval()
    expected = logits(base, samples)  # PEFT puts its layers into the model it is given
    merged_logits = logits(load_checkpoint(merged), samples)
    assert adapted is not None and not torch.allclose(before, expected, atol=1e-3)
    torch.testing.assert_close(merged_logits, expected, atol=1e-4, rtol=1e-3)
    (reply,) = TransformersChat.load(merged).chat([samples[0].example.request()])
    assert reply.error is None


def logits(checkpoint: Any, samples: list[Sample]) -> torch.Tensor:
    inputs = SampleEncoder(checkpoint).pad(samples)
    with torch.no_grad():
        values: torch.Tensor = checkpoint.model(**inputs).logits
    return values


def test_a_stopped_training_goes_on_where_it_was(checkpoints: dict[str, Path], tmp_path: Path) -> None:
    rows = [example(n, "correct" if n % 2 else "miss") for n in range(16)]
    data = save_examples(tmp_path / "data", rows, [example(20)])
    # Both halves are told of 6 steps, so that the learning rates are those of the whole: the second checkpoint is taken away.
    options = ("--set", "training.save_steps=3", "--set", "training.packing=false", "--max-steps", "6")
    whole = run_sft(data, checkpoints["llama"], tmp_path / "whole", *options)
    checkpoints_of_half = tmp_path / "half" / CHECKPOINTS
    shutil.copytree(
        tmp_path / "whole" / CHECKPOINTS, checkpoints_of_half, ignore=shutil.ignore_patterns("checkpoint-6")
    )
    for step, state in ((4, None), (5, '{"global_step": 5, "log_h')):  # killed while one was being written
        broken = checkpoints_of_half / f"checkpoint-{step}"
        broken.mkdir()
        if state is not None:
            (broken / "trainer_state.json").write_text(state)
    half = run_sft(data, checkpoints["llama"], tmp_path / "half", *options, "--resume")
    assert whole["steps"] == half["steps"] == 6
    assert half["held_out_loss"]["after"] == pytest.approx(whole["held_out_loss"]["after"], rel=1e-4)


def test_a_training_is_resumed_only_from_checkpoints_of_the_same(
    checkpoints: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train, held_out = [example(n) for n in range(4)], [example(20)]
    data, model, out = save_examples(tmp_path / "data", train, held_out), checkpoints["llama"], tmp_path / "out"
    run_sft(data, model, out, "--max-steps", "2")
    adapter = (out / "adapter" / "adapter_model.safetensors").read_bytes()

    moved = save_examples(tmp_path / "moved", train, held_out)
    run_sft(moved, model, out, "--max-steps", "2", "--resume")
    assert (out / "adapter" / "adapter_model.safetensors").read_bytes() == adapter

    other_data = save_examples(tmp_path / "other", [example(n, "miss") for n in range(4)], held_out)
    other_model = SAVE["llama"](tmp_path / "weights")
    (other_model / "README.md").write_text("other files")
    for arguments in (
        list_arguments(other_data, model, out, "--max-steps", "2"),
        list_arguments(data, model, out, "--max-steps", "3"),
        list_arguments(data, model, out, "--max-steps", "2", "--set", "training.learning_rate=0.05"),
        list_arguments(data, other_model, out, "--max-steps", "2"),
    ):
        capsys.readouterr()
        assert sft.main([*arguments, "--resume"]) == 2
        assert (
            "was made from other data, another recipe, model or judge, or another --max-steps; name"
            in capsys.readouterr().err
        )
    assert (out / "adapter" / "adapter_model.safetensors").read_bytes() == adapter

    run_sft(other_data, model, out, "--max-steps", "2")
    assert (out / "adapter" / "adapter_model.safetensors").read_bytes() != adapter


def test_a_training_from_the_beginning_leaves_no_checkpoint_of_an_earlier_one(tmp_path: Path) -> None:
    """Else it would be resumed from that one's, which has the higher number."""
    folder = tmp_path / CHECKPOINTS
    claim_folder(folder, "earlier", resume=False)
    (folder / "checkpoint-99").mkdir()
    claim_folder(folder, "later", resume=False)
    assert [path.name for path in folder.iterdir()] == [FINGERPRINT]
    (folder / "checkpoint-3").mkdir()
    claim_folder(folder, "later", resume=True)
    assert (folder / "checkpoint-3").is_dir()


def test_checkpoints_that_do_not_say_of_what_they_are_made_are_not_resumed(tmp_path: Path) -> None:
    (tmp_path / "checkpoint-3").mkdir()
    with pytest.raises(
        TrainingDataError,
        match="does not say what it was made from; name another --out, or start again without --resume",
    ):
        claim_folder(tmp_path, "later", resume=True)
    claim_folder(tmp_path / "new", "later", resume=True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("vision", [False, True])
def test_adapters_are_on_the_language_model_and_on_the_picture_encoder_only_when_asked(
    kind: str, vision: bool, checkpoints: dict[str, Path]
) -> None:
    recipe = load_recipe("nvidia")
    recipe = recipe.model_copy(update={"lora": LoraTable(r=2, alpha=4, vision=vision)})
    _, model = load_trainable(checkpoints[kind], recipe)
    names = [name for name, value in model.named_parameters() if value.requires_grad]
    assert names and all("lora_" in name for name in names)
    assert any("down_proj" in name and "vis" not in name for name in names)
    assert any("vision" in name or "visual" in name for name in names) is (vision and kind != "llama")


def test_the_published_values_stand_in_the_recipes() -> None:
    recipes = {name: load_recipe(name) for name in list_recipes()}
    published = {
        "nvidia": (16, 32, 1e-5, 1),
        "blackpearl": (64, 128, 5e-6, 10),
        "blackpearl_script": (128, 256, 5e-5, 10),
        "core_mmrag": (8, 16, 1e-4, 3),
    }
    for name, (r, alpha, rate, epochs) in published.items():
        recipe = recipes[name]
        assert (recipe.lora.r, recipe.lora.alpha, recipe.training.learning_rate, recipe.training.epochs) == (
            r,
            alpha,
            rate,
            epochs,
        )
    assert all(recipe.source and recipe.description for recipe in recipes.values())


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("nothing", (), "known: "),
        ("nvidia", ("training.speed=3",), "malformed"),
        ("nvidia", ("epochs=3",), r"(?s)malformed.*epochs"),
        ("nvidia", ("lora.r=0",), "malformed"),
    ],
)
def test_a_wrong_recipe_is_told(name: str, changes: tuple[str, ...], message: str) -> None:
    with pytest.raises(TrainingDataError, match=message):
        load_recipe(name, changes)


def test_what_is_missing_is_told(
    checkpoints: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = save_examples(tmp_path / "empty", [], [])
    fixed = ["--recipe", "smollm2", "--out", str(tmp_path / "out"), "--eval-model", "None"]
    assert sft.main(["--data", str(empty), "--model", str(checkpoints["llama"]), *fixed]) == 2
    assert "nothing to train on" in capsys.readouterr().err
    assert sft.main(["--data", str(tmp_path / "none"), "--model", str(checkpoints["llama"]), *fixed]) == 2
    assert "training.collect" in capsys.readouterr().err
    assert sft.main(["--data", str(empty), "--model", str(tmp_path / "none"), *fixed]) == 2
    assert merge.main(["--adapter", str(tmp_path), "--out", str(tmp_path / "merged")]) == 2
    assert "no LoRA adapter" in capsys.readouterr().err


def test_samples_that_are_too_long_are_left_out(checkpoints: dict[str, Path], tmp_path: Path) -> None:
    rows = save_and_load(tmp_path, example(0), example(1, query="How tall? " * 40))
    recipe = load_recipe("smollm2", ["training.max_tokens=100"])
    groups, too_long = sft.prepare(
        select_samples(rows, DataTable()), SampleEncoder(load_checkpoint(checkpoints["llama"])), recipe
    )
    assert too_long == 1 and [len(group.samples) for group in groups] == [1]
