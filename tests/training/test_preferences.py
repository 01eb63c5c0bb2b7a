"""Sampled replies, pairs, rewards and the curriculum; DPO and GRPO on tiny checkpoints."""

import json
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from trl import GRPOConfig

from agents.models.base import ChatReply
from agents.models.chat.transformers_checkpoint import load_checkpoint
from evaluation.files.outputs import write_outputs
from evaluation.judge.rule_judge import RuleJudge
from evaluation.records import JudgeItem
from evaluation.records import Verdict as Judgement
from tests.agent.scripted import ScriptedChat
from tests.evaluation.worlds import judged
from tests.training.tiny_data import SAVE, example, save_and_load, save_examples
from training import dpo, grpo
from training.chat_examples import Example, TrainingDataError, Verdict
from training.collect import select_questions
from training.dpo import (
    PairCollator,
    SampledReplies,
    Sampling,
    build_pairs,
    complete_samples,
    make_key,
    read_samples,
    sample_replies,
    select_fitting,
    write_samples,
)
from training.encoding import IGNORED, SampleEncoder, append_replies
from training.fit import identify_model
from training.grpo import build_curriculum, make_reward, make_trainer, split_by_difficulty
from training.recipes import load_recipe

RIGHT, WRONG = "It is 330 metres tall.", "It is 12 metres tall."
UNCLEAR = "It is 330 or 12 metres tall."
END = 2
"""Id of a token that ends replies."""


SAMPLING = Sampling("llama", "rule", temperature=1.0, samples=8, seed=0)
"""As recipe ``preferences`` samples."""


def make_sampled_replies(*replies: str) -> SampledReplies:
    verdicts: dict[str, Verdict] = {
        RIGHT: "correct",
        WRONG: "hallucination",
        "I don't know": "miss",
        "12 m.": "hallucination",
    }
    return SampledReplies(make_key(example(0)), replies, tuple(verdicts[reply] for reply in replies))


@pytest.mark.parametrize(
    ("replies", "pairs"),
    [
        ((RIGHT, WRONG), [(RIGHT, "I don't know"), (RIGHT, WRONG), ("I don't know", WRONG)]),
        ((RIGHT, "I don't know"), [(RIGHT, "I don't know")]),
        ((WRONG, WRONG), [("I don't know", WRONG)]),
        (("12 m.", WRONG, WRONG), [("I don't know", WRONG)]),
        (("I don't know",), []),
    ],
)
def test_right_over_refusal_over_wrong(replies: tuple[str, ...], pairs: list[tuple[str, str]]) -> None:
    assert [(pair.chosen, pair.rejected) for pair in build_pairs(example(0), make_sampled_replies(*replies))] == pairs


def test_replies_are_sampled_in_one_call_and_judged(tmp_path: Path) -> None:
    replies = iter([RIGHT, WRONG, "I don't know", RIGHT])
    model = ScriptedChat(lambda _: ChatReply(next(replies), "stop"))
    rows = [example(0), example(1, form="queries", reply="x"), example(2)]
    recipe = load_recipe("preferences", ["dpo.samples=2", "dpo.temperature=0.7"])
    samples = sample_replies(model, rows, RuleJudge(), recipe)
    assert model.batches == [4] and {request.temperature for request in model.requests} == {0.7}
    assert len({request.seed for request in model.requests[:2]}) == 2
    assert [row.verdicts for row in samples] == [("correct", "hallucination"), ("miss", "correct")]
    write_samples(tmp_path / "samples.jsonl", SAMPLING, samples)
    assert read_samples(tmp_path / "samples.jsonl", SAMPLING) == samples


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "another"}, "model: another then, llama now"),
        ({"judge": "gpt-4o-mini"}, "judge: gpt-4o-mini then, rule now"),
        ({"temperature": 0.7}, r"temperature: 0\.7 then, 1\.0 now"),
        ({"samples": 2}, "samples: 2 then, 8 now"),
        ({"seed": 1}, "seed: 1 then, 0 now"),
    ],
)
def test_replies_that_were_sampled_otherwise_are_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = tmp_path / dpo.SAMPLES
    write_samples(path, replace(SAMPLING, **change), [make_sampled_replies(RIGHT)])
    with pytest.raises(TrainingDataError, match=rf"{message}\); remove the file, and replies are sampled again"):
        complete_samples(path, SAMPLING, [example(0)], lambda _: [])


def test_replies_that_do_not_say_how_they_were_sampled_are_refused(tmp_path: Path) -> None:
    (tmp_path / dpo.SAMPLES).write_text(json.dumps(asdict(make_sampled_replies(RIGHT))) + "\n")
    with pytest.raises(TrainingDataError, match=r"it does not say how.*; remove the file"):
        complete_samples(tmp_path / dpo.SAMPLES, SAMPLING, [example(0)], lambda _: [])


def test_only_missing_replies_are_sampled_and_an_interruption_keeps_those_before(tmp_path: Path) -> None:
    path, batches = tmp_path / dpo.SAMPLES, list[int]()
    questions = [example(n) for n in range(dpo.BATCH + 2)]

    def sample(rows: Sequence[Example]) -> list[SampledReplies]:
        batches.append(len(rows))
        return [SampledReplies(make_key(row), (RIGHT,), ("correct",)) for row in rows]

    def sample_one_batch(rows: Sequence[Example]) -> list[SampledReplies]:
        if batches:
            raise KeyboardInterrupt
        return sample(rows)

    with pytest.raises(KeyboardInterrupt):
        complete_samples(path, SAMPLING, questions, sample_one_batch)
    with path.open("a") as file:
        file.write('{"key": ["s16", "s16')  # killed while it was written
    complete_samples(path, SAMPLING, questions[:-1], sample)
    sampled = complete_samples(path, SAMPLING, [*questions, questions[-1]], sample)
    assert batches == [dpo.BATCH, 1, 1]
    assert list(sampled) == [make_key(row) for row in questions]
    assert read_samples(path, SAMPLING) == list(sampled.values())


def test_a_cut_sample_is_the_text_that_the_agent_gives_of_it() -> None:
    replies = iter([f"{RIGHT} It was", WRONG[:-1], f"{WRONG} It was"])
    model = ScriptedChat(lambda _: ChatReply(next(replies), "length"))
    (row,) = sample_replies(model, [example(0)], RuleJudge(), load_recipe("preferences", ["dpo.samples=3"]))
    assert (row.replies, row.verdicts) == ((RIGHT, "", WRONG), ("correct", "miss", "hallucination"))


def test_each_request_of_a_turn_is_trained_on_its_own_samples(tmp_path: Path) -> None:
    """A turn may ask each of its sources alone under one prompt; a shorter reply or another photo is another request, too."""
    first = example(0)
    system, user = first.messages
    rows = [
        first,
        replace(first, messages=(system, replace(user, content="Another source."))),
        replace(first, max_tokens=7),
        replace(first, prompt="other"),
    ]
    assert len({*map(make_key, rows), make_key(replace(first, reply="x"))}) == 4
    pictured = [replace(first, messages=(system, replace(user, images=(name,)))) for name in "ab"]
    assert len({*map(make_key, pictured)}) == 2
    samples = [SampledReplies(make_key(row), (f"{n}",), ("correct",)) for n, row in enumerate(rows)]
    write_samples(tmp_path / dpo.SAMPLES, SAMPLING, samples)
    samples_by_key = {row.key: row for row in read_samples(tmp_path / dpo.SAMPLES, SAMPLING)}
    assert [build_pairs(row, samples_by_key[make_key(row)])[0].chosen for row in rows] == ["0", "1", "2", "3"]
    (tmp_path / dpo.SAMPLES).write_text(
        '{"key": ["s0", "s0-0", "answer"], "replies": ["0"], "verdicts": ["correct"]}\n'
    )
    with pytest.raises(TrainingDataError, match="remove the file, and replies are sampled again"):
        read_samples(tmp_path / dpo.SAMPLES, SAMPLING)


def test_the_stages_are_easy_then_one_to_one_then_one_to_two() -> None:
    easy, hard = [example(n) for n in range(10)], [example(n, "hallucination") for n in range(100, 114)]
    stages = build_curriculum(easy, hard)
    mixed = [(stage.name, Counter(row.reply_verdict for row in stage.examples)) for stage in stages]
    assert mixed == [
        ("easy", {"correct": 10}),
        ("1:1", {"correct": 10, "hallucination": 10}),
        ("1:2", {"correct": 7, "hallucination": 14}),
    ]
    for stage in stages:
        assert len({row.session_id for row in stage.examples}) == len(stage.examples)
    assert build_curriculum(easy, hard) == stages
    assert [stage.name for stage in build_curriculum(easy, [])] == ["easy"]
    assert build_curriculum([], hard) == []


def test_the_reward_is_that_of_the_challenge() -> None:
    reward = make_reward([example(0), example(1)], RuleJudge(), {END})
    replies = [RIGHT, "I don't know", WRONG]
    assert reward(completions=replies, completion_ids=[[7, END]] * 3, place=[0, 1, 1]) == [1.0, 0.0, -1.0]
    completions = [[{"role": "assistant", "content": [{"type": "text", "text": f" {RIGHT}"}]}]]
    assert reward(completions=completions, completion_ids=[[7, END]], place=[1], prompts=[None]) == [1.0]


@pytest.mark.parametrize(
    ("reply", "reward_whole", "reward_cut"),
    [
        (RIGHT[:-1], 1.0, 0.0),
        (WRONG[:-1], -1.0, 0.0),
        (f"{RIGHT} It was", 1.0, 1.0),
    ],
)
def test_a_reply_without_an_end_token_is_rewarded_for_what_the_agent_gives_of_it(
    reply: str, reward_whole: float, reward_cut: float
) -> None:
    reward = make_reward([example(0)], RuleJudge(), {END, END + 1})
    ids = [[7, END], [7, END + 1], [7, 7]]
    assert reward(completions=[reply] * 3, completion_ids=ids, place=[0] * 3) == [reward_whole] * 2 + [reward_cut]


class Moody(RuleJudge):
    """Judge that gives no usable reply about some replies."""

    def judge(self, item: JudgeItem) -> Judgement:
        return Judgement(False, "no reply", failed=True) if item.response == UNCLEAR else super().judge(item)


def test_a_reply_that_was_not_judged_gets_the_mean_of_its_group(caplog: pytest.LogCaptureFixture) -> None:
    """Its advantage in the group, (reward - mean) / deviation, is 0; as a wrong one it would be punished."""
    reward = make_reward([example(0), example(1)], Moody(), {END})
    completions = [RIGHT, WRONG, UNCLEAR, RIGHT, UNCLEAR, UNCLEAR]
    rewards = reward(completions=completions, completion_ids=[[END]] * 6, place=[0, 0, 0, 0, 1, 1])
    assert rewards == [1.0, -1.0, pytest.approx(1 / 3), 1.0, 0.0, 0.0]
    assert sum(rewards[:4]) / 4 == pytest.approx(rewards[2])
    assert "3 of 6 replies are not judged and teach nothing: no reply" in caplog.text


def test_a_reply_that_was_not_judged_is_no_worse_than_a_refusal() -> None:
    replies = iter([RIGHT, UNCLEAR, UNCLEAR, UNCLEAR])
    model = ScriptedChat(lambda _: ChatReply(next(replies), "stop"))
    samples = sample_replies(model, [example(0), example(1)], Moody(), load_recipe("preferences", ["dpo.samples=2"]))
    assert [(row.replies, row.verdicts) for row in samples] == [((RIGHT,), ("correct",)), ((), ())]
    pairs = [[(pair.chosen, pair.rejected) for pair in build_pairs(example(0), row)] for row in samples]
    assert pairs == [[(RIGHT, "I don't know")], []]


def test_a_question_whose_reply_was_not_judged_is_neither_easy_nor_hard() -> None:
    rows = [example(0), example(1, "hallucination"), replace(example(2), reply_verdict=None)]
    easy, hard = split_by_difficulty(rows, None)
    assert ([row.session_id for row in easy], [row.session_id for row in hard]) == (["s0"], ["s1"])


def test_a_strong_model_says_what_is_easy() -> None:
    rows = [example(0), example(1, "hallucination"), example(2, form="queries", reply="x")]
    easy, hard = split_by_difficulty(rows, None)
    assert ([row.session_id for row in easy], [row.session_id for row in hard]) == (["s0"], ["s1"])
    easy, hard = split_by_difficulty(rows, {("s1", "s1-0"): "correct", ("s0", "s0-0"): "hallucination"})
    assert ([row.session_id for row in easy], [row.session_id for row in hard]) == (["s1"], ["s0"])


def test_what_the_strong_model_has_no_verdict_on_is_neither_easy_nor_hard(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A failed judgement, an error and a question that it was never asked tell nothing of how hard a question is."""
    right, wrong, failed, error = (judged(verdict, f"s{n}")[0] for n, verdict in enumerate("chhm"))
    failed = replace(failed, judge_failed=True)
    error = replace(error, turn=replace(error.turn, error_cause="busy"))
    (tmp_path / "strong").mkdir()
    write_outputs(tmp_path / "strong", [right, wrong, failed, error], {})
    model, data = (
        SAVE["llama"](tmp_path / "llama"),
        save_examples(tmp_path / "data", [example(n) for n in range(5)], []),
    )
    changes = {"training.batch": 2, "training.accumulation": 1, "grpo.generations": 2}
    arguments = [*options(data, model, tmp_path / "out", **changes), "--strong", str(tmp_path / "strong")]
    assert grpo.main([*arguments, "--max-steps", "1"]) == 0
    about = json.loads((tmp_path / "out" / "about.json").read_text())
    assert (about["easy"], about["hard"], about["without_verdict"]) == (1, 1, 3)
    assert "3 of 5 questions are left out: they have no verdict" in caplog.text


def test_a_strong_run_over_other_questions_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "strong").mkdir()
    write_outputs(tmp_path / "strong", judged("c", "elsewhere"), {})
    arguments = options(save_examples(tmp_path / "data", [example(0)], []), tmp_path / "no model", tmp_path / "out")
    assert grpo.main([*arguments, "--strong", str(tmp_path / "strong")]) == 2
    assert "strong model's run over the same questions" in capsys.readouterr().err


@pytest.mark.parametrize("kind", sorted(SAVE))
def test_a_pair_is_the_served_prompt_with_both_replies(kind: str, tmp_path: Path) -> None:
    checkpoint = load_checkpoint(SAVE[kind](tmp_path / kind))
    encoder = SampleEncoder(checkpoint)
    (row,) = save_and_load(tmp_path / "data", example(0, images=("a",) if checkpoint.sees else ()))
    pairs = build_pairs(row, make_sampled_replies(RIGHT, WRONG))
    inputs = PairCollator(pairs, encoder)([{"place": 1}])
    texts = [
        checkpoint.tokenizer.decode(ids[mask == 1], skip_special_tokens=True)
        for ids, mask in zip(inputs["input_ids"], inputs["completion_mask"], strict=True)
    ]
    assert texts == [RIGHT, WRONG] and "labels" not in inputs
    assert select_fitting(pairs, encoder, 10) == [] and select_fitting(pairs, encoder, 500) == pairs


def options(data: Path, model: Path, out: Path, **changes: object) -> list[str]:
    small = {"training.dtype": "float32", "training.checkpointing": "false", "lora.r": 4, **changes}
    fixed = ["--data", str(data), "--model", str(model), "--out", str(out), "--eval-model", "None"]
    return fixed + [word for name, value in small.items() for word in ("--set", f"{name}={value}")]


@pytest.mark.parametrize("kind", sorted(SAVE))
def test_dpo_widens_the_margin(kind: str, tmp_path: Path) -> None:
    model, out = SAVE[kind](tmp_path / kind), tmp_path / "out"
    images = ("a",) if kind != "llama" else ()
    rows = [example(n, images=images if n % 2 else ()) for n in range(4)]
    data = save_examples(tmp_path / "data", rows, [])
    samples = [SampledReplies(make_key(row), (RIGHT, WRONG), ("correct", "hallucination")) for row in rows]
    write_samples(out / dpo.SAMPLES, replace(SAMPLING, model=identify_model(str(model))), samples)
    arguments = options(data, model, out, **{"training.learning_rate": 0.005, "training.accumulation": 4})
    assert dpo.main([*arguments, "--max-steps", "6"]) == 0
    about: dict[str, Any] = json.loads((out / "about.json").read_text())
    assert (about["questions"], about["pairs"], about["held_out_questions"]) == (4, 12, 0)
    assert about["margin"]["last"] > about["margin"]["first"] == 0.0
    assert (out / "adapter" / "adapter_model.safetensors").is_file()


def test_dpo_samples_by_itself_and_tells_when_nothing_is_better(tmp_path: Path) -> None:
    model, out = SAVE["llama"](tmp_path / "llama"), tmp_path / "out"
    data = save_examples(tmp_path / "data", [replace(example(0), max_tokens=300)], [])
    arguments = options(data, model, out, **{"dpo.samples": 8})
    # Of a random model's replies some end by themselves and are wrong: refusal over wrong.
    assert dpo.main([*arguments, "--max-steps", "1"]) == 0
    sampling = replace(SAMPLING, model=identify_model(str(model)))
    (row,) = read_samples(out / dpo.SAMPLES, sampling)
    assert len(row.replies) == 8
    write_samples(out / dpo.SAMPLES, sampling, [replace(row, verdicts=("miss",) * 8)])
    assert dpo.main([*arguments, "--max-steps", "1"]) == 2


@pytest.mark.parametrize("kind", sorted(SAVE))
def test_grpo_goes_through_its_stages(kind: str, tmp_path: Path) -> None:
    model, out = SAVE[kind](tmp_path / kind), tmp_path / "out"
    images = ("a",) if kind != "llama" else ()
    rows = [example(n, "correct" if n < 2 else "hallucination", images=images) for n in range(6)]
    data = save_examples(tmp_path / "data", rows, [])
    changes = {"training.batch": 2, "training.accumulation": 1, "grpo.generations": 2}
    assert grpo.main([*options(data, model, out, **changes), "--max-steps", "1"]) == 0
    about = json.loads((out / "about.json").read_text())
    assert [(stage["name"], stage["questions"]) for stage in about["stages"]] == [("easy", 2), ("1:1", 4), ("1:2", 6)]
    assert all(-1 <= reward <= 1 for stage in about["stages"] for reward in stage["rewards"])
    assert (out / "adapter" / "adapter_config.json").is_file()


def test_a_resumed_curriculum_tells_of_all_its_stages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, out = SAVE["llama"](tmp_path / "llama"), tmp_path / "out"
    rows = [example(n, "correct" if n < 2 else "hallucination") for n in range(6)]
    changes = {"training.batch": 2, "training.accumulation": 1, "grpo.generations": 2}
    arguments = [*options(save_examples(tmp_path / "data", rows, []), model, out, **changes), "--max-steps", "1"]
    assert grpo.main(arguments) == 0
    whole = json.loads((out / "about.json").read_text())
    (out / "stage_3" / "adapter" / "adapter_config.json").unlink()  # killed while it was being written
    shutil.rmtree(out / "stage_3" / "checkpoints")
    assert grpo.main([*arguments, "--resume"]) == 0
    assert json.loads((out / "about.json").read_text()) == whole and len(whole["stages"]) == 3

    harder = [*rows[:-1], replace(rows[-1], ground_truth="It is 12 metres tall.")]
    other = options(save_examples(tmp_path / "harder", harder, []), model, out, **changes)
    capsys.readouterr()
    assert grpo.main([*other, "--max-steps", "1", "--resume"]) == 2
    assert "stage_1 was made from other data" in capsys.readouterr().err


def test_a_curriculum_from_the_beginning_leaves_no_stage_of_an_earlier_one(tmp_path: Path) -> None:
    """Else it would be resumed, after a kill in the first stage, with the others' earlier adapters."""
    out = tmp_path / "out"
    for number in (1, 2):
        (out / f"stage_{number}" / "adapter").mkdir(parents=True)
        (out / f"stage_{number}" / "adapter" / "adapter_config.json").write_text("{}")
    rows = [example(0), example(1, "hallucination")]
    assert grpo.main(options(save_examples(tmp_path / "data", rows, []), tmp_path / "no model", out)) == 2
    assert not list(out.glob("stage_*/adapter"))


@pytest.mark.parametrize(
    ("command", "changes", "message"),
    [
        (
            grpo,
            {"training.batch": 3, "training.accumulation": 1, "grpo.generations": 2},
            "divisible by num_generations",
        ),
        (dpo, {"training.scheduler": "cosinus"}, "cosinus is not a valid"),
    ],
)
def test_what_a_trainer_does_not_take_is_told(
    command: Any, changes: dict[str, object], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = SAVE["llama"](tmp_path / "llama")
    data = save_examples(tmp_path / "data", [example(0)], [])
    sampling = replace(SAMPLING, model=identify_model(str(model)))
    write_samples(tmp_path / "out" / dpo.SAMPLES, sampling, [make_sampled_replies(RIGHT, WRONG)])
    assert command.main(options(data, model, tmp_path / "out", **changes)) == 2
    assert message in (output := capsys.readouterr().err) and "use --set" in output


@pytest.mark.parametrize("kind", sorted(SAVE))
def test_grpo_asks_with_the_served_prompt_and_its_picture(kind: str, tmp_path: Path) -> None:
    checkpoint = load_checkpoint(SAVE[kind](tmp_path / kind), dtype="float32")
    names = ("a", "b") if checkpoint.sees else ()
    rows = save_and_load(tmp_path / "data", example(0, images=names[:1]), example(1, images=names[1:], query="Who?"))
    config = GRPOConfig(
        output_dir=str(tmp_path / "out"),
        use_cpu=True,
        bf16=False,
        report_to=[],
        per_device_train_batch_size=2,
        num_generations=2,
        temperature=1.0,
        beta=0.5,
        max_completion_length=4,
    )
    reward = make_reward(rows, RuleJudge(), checkpoint.end_ids)
    trainer: Any = make_trainer(rows, checkpoint, model=checkpoint.model, reward_funcs=reward, args=config)
    batch = trainer._generate_and_score_completions([trainer.train_dataset[place] for place in (0, 1)])
    encoder = SampleEncoder(checkpoint)
    served = encoder.prompts(rows)
    assert torch.equal(batch["prompt_ids"], served["input_ids"])
    assert torch.equal(batch["prompt_mask"], served["attention_mask"])

    # The probabilities that trl trains on are those of the model with prompt, picture and reply.
    replies = [
        ids[mask == 1].tolist() for ids, mask in zip(batch["completion_ids"], batch["completion_mask"], strict=True)
    ]
    whole = append_replies(served, replies, checkpoint.tokenizer.pad_token_id)
    labels = whole.pop("labels")[:, 1:]
    with torch.no_grad():
        scores = checkpoint.model(**whole).logits[:, :-1].log_softmax(dim=-1)
    expected = scores.gather(2, labels.clamp(min=0).unsqueeze(2)).squeeze(2)[labels != IGNORED]
    logprobs = batch["ref_per_token_logps"][batch["completion_mask"] == 1]
    torch.testing.assert_close(logprobs, expected, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize(
    ("pictured", "plain", "left_out"),
    [(2, 2, {"with_picture": 0, "without_picture": 2}), (2, 3, {"with_picture": 2, "without_picture": 0})],
)
def test_questions_with_and_without_a_picture_are_not_mixed(
    pictured: int, plain: int, left_out: dict[str, int], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The larger group is trained on; questions of the other are counted."""
    model, out = SAVE["mllama"](tmp_path / "mllama"), tmp_path / "out"
    rows = [example(n, images=("a",) if n < pictured else ()) for n in range(pictured + plain)]
    other = [example(n, form="queries") for n in range(10, 20)]  # these are no questions
    data = save_examples(tmp_path / "data", rows + other, [])
    changes = {"training.batch": 2, "training.accumulation": 1, "grpo.generations": 2}
    assert grpo.main([*options(data, model, out, **changes), "--max-steps", "1"]) == 0
    about = json.loads((out / "about.json").read_text())
    assert about["easy"] == max(pictured, plain) and about["left_out"] == left_out
    assert f"2 of {pictured + plain} questions are left out" in caplog.text


def test_grpo_tells_that_vllm_would_see_no_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = save_examples(tmp_path / "data", [example(0)], [])
    model = SAVE["mllama"](tmp_path / "mllama")
    assert grpo.main([*options(data, model, tmp_path / "out"), "--vllm"]) == 2
    assert "leave out --vllm" in capsys.readouterr().err


def test_questions_are_the_examples_that_answer() -> None:
    examples = [
        example(0),
        example(1, form="yes or no", prompt="relevance", reply="No"),
        example(2, form="brief answer"),
    ]
    assert [row.form for row in select_questions(examples)] == ["answer", "brief answer"]
    with pytest.raises(TrainingDataError, match="no sampled replies"):
        read_samples(Path("nowhere.jsonl"), SAMPLING)
