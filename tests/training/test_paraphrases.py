"""Paraphrases of ground truths as training data: only right ones, each once, of the side that is trained on."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import pytest

from agents.asking.readers.fields import paraphrases_form
from agents.models.base import ChatReply, ChatRequest, ModelError
from agents.time_limits.deadline import NO_DEADLINE, Deadline
from tests.training.tiny_data import example, save_examples
from training import paraphrases
from training.chat_examples import HELD_OUT, PARAPHRASE, TRAIN, Example, Message, read_examples
from training.collect import select_questions
from training.paraphrases import COUNTS
from training.recipes import DataTable
from training.sft import count_kinds, select_samples

REPLY = (
    "1. It measures 330 metres.\n2. It measures 330 metres.\n3. It is 5 metres tall.\n4. 330 metres\n5. I don't know"
)
RIGHT = ["It measures 330 metres.", "330 metres"]


class Paraphraser:
    """The chat model of the test's profile."""

    name = "paraphraser"
    prompts: ClassVar[list[str]] = []
    batches = 100  # that it answers before it fails

    def chat(self, requests: Sequence[ChatRequest], deadline: Deadline = NO_DEADLINE) -> list[ChatReply]:
        if not Paraphraser.batches:
            raise ModelError("the server is gone")
        Paraphraser.batches -= 1
        self.prompts.extend(request.messages[-1].content for request in requests)
        return [ChatReply(REPLY, "stop") for _ in requests]


@pytest.fixture(autouse=True)
def prompts(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    monkeypatch.setattr(Paraphraser, "prompts", [])
    monkeypatch.setattr(Paraphraser, "batches", 100)
    yield Paraphraser.prompts


@pytest.fixture
def add(tmp_path: Path) -> Callable[..., int]:
    profile = tmp_path / "scripted.toml"
    profile.write_text(f'[limits]\nbatch_size = 2\n[models.chat]\nkind = "{__name__}:Paraphraser"\n', encoding="utf-8")
    places = ["--data", str(tmp_path), "--profile", str(profile), "--cache", str(tmp_path / "cache")]
    return lambda *flags: paraphrases.main([*places, "--eval-model", "rule", *flags])


def read_paraphrases(folder: Path) -> list[Example]:
    return [row for row in read_examples(folder / TRAIN) if row.prompt == PARAPHRASE]


def test_right_paraphrases_are_answers_to_the_requests_of_their_turn(tmp_path: Path, add: Callable[..., int]) -> None:
    rows = [
        example(0, "hallucination", reply="It is 7 metres tall.", images=("photo",)),
        example(1, reply="330 metres"),
    ]
    save_examples(tmp_path, rows, [example(2)])
    assert add() == 0
    paraphrases = read_paraphrases(tmp_path)
    assert [(row.session_id, row.reply) for row in paraphrases] == [
        ("s0", RIGHT[0]),
        ("s0", RIGHT[1]),
        ("s1", RIGHT[0]),
    ]
    assert paraphrases[0].messages == rows[0].messages and paraphrases[0].model == "paraphraser"
    examples = read_examples(tmp_path / TRAIN)
    assert [row.prompt for row in examples[:2]] == ["answer_with_evidence"] * 2 and len(examples) == 5
    assert [row.session_id for row in read_examples(tmp_path / HELD_OUT)] == ["s2"]
    counts = json.loads((tmp_path / COUNTS).read_text())
    assert counts["ground_truths"] == 2 and counts["rows"] == {"collected": 2, PARAPHRASE: 3}
    assert counts["verdicts"] == {"correct": 4, "hallucination": 2, "miss": 2} and counts["unreadable_replies"] == 0


@pytest.mark.parametrize("answers", ["own", "reference"])
def test_sft_takes_them_as_answers_and_who_asks_each_question_once_does_not(
    tmp_path: Path, add: Callable[..., int], answers: str
) -> None:
    save_examples(tmp_path, [example(0, "hallucination", reply="It is 7 metres tall."), example(1)], [])
    add()
    examples = read_examples(tmp_path / TRAIN)
    data = DataTable(answers=answers)  # type: ignore[arg-type]
    samples = select_samples(examples, data)
    assert count_kinds(samples) == {"answer": 5, "refusal": 1}
    assert [sample.reply for sample in samples[2:]] == 2 * RIGHT
    assert [row.session_id for row in select_questions(examples)] == ["s0", "s1"]


def test_a_question_taught_as_refusal_gets_none_where_only_right_replies_do(
    tmp_path: Path, add: Callable[..., int], prompts: list[str]
) -> None:
    save_examples(tmp_path, [example(0, "hallucination"), example(1)], [])
    assert add("--only-right") == 0
    assert {row.session_id for row in read_paraphrases(tmp_path)} == {"s1"} and len(prompts) == 1


def test_each_ground_truth_is_asked_once_and_no_refusal_or_other_form(
    tmp_path: Path, add: Callable[..., int], prompts: list[str]
) -> None:
    other = example(0, prompt="answer_without_evidence")
    rows = [example(0), Example(**{**vars(other), "messages": (Message("user", "Otherwise"),)}),
            example(1, "miss", truth="I don't know"), example(2, form="brief answer"), example(3, form="queries")]  # fmt: skip
    save_examples(tmp_path, rows, [])
    assert add("--paraphrases", "2") == 0
    assert len(prompts) == 1 and "2 different ways" in prompts[0]
    # the second one is wrong
    assert [row.messages for row in read_paraphrases(tmp_path)] == [rows[0].messages, rows[1].messages]


def test_a_stopped_call_goes_on_and_one_given_again_changes_nothing(
    tmp_path: Path, add: Callable[..., int], prompts: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    save_examples(tmp_path, [example(number) for number in range(3)], [])
    before = (tmp_path / TRAIN).read_bytes()
    Paraphraser.batches = 1
    assert add() == 2 and "the server is gone" in capsys.readouterr().err
    assert (tmp_path / TRAIN).read_bytes() == before and len(prompts) == 2
    Paraphraser.batches = 100
    assert add() == 0 and len(prompts) == 3
    once = (tmp_path / TRAIN).read_bytes()
    assert add() == 0 and len(prompts) == 3
    assert (tmp_path / TRAIN).read_bytes() == once != before


def test_data_without_a_question_are_refused(
    tmp_path: Path, add: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    save_examples(tmp_path, [example(0, form="queries")], [])
    assert add() == 2
    assert "contains no question with an answer to paraphrase" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("reply", "sentences"),
    [
        (ChatReply("Sure, here are 3:\n1. It is tall.\n\n- It is tall.\n* That's tall", "stop"), ["It is tall.", "That's tall"]),
        (ChatReply("It is tall.\nIt was never", "length"), ["It is tall."]),
        (ChatReply("It was never", "length"), []),
        (ChatReply(long := "It was finished in 1889 after two years and five days of work, as the gate to it.", "stop"), [long]),
        (ChatReply("", "error", error="no"), []),
    ],
)  # fmt: skip
def test_sentences_are_read_whole_and_none_that_was_cut_off(reply: ChatReply, sentences: list[str]) -> None:
    form = paraphrases_form(5)
    assert form.read(reply) == sentences and form.is_valid(sentences, reply) is bool(sentences)
