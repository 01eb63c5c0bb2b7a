"""Replies that the deadline stopped: whole sentences count, torn ones do not."""

from __future__ import annotations

import pytest

from agents.asking.ask import MAX_READ, read
from agents.asking.readers.answers import CITED_ANSWER, read_candidate, read_step_answer
from agents.asking.readers.drafts import draft_form, parse_draft
from agents.asking.readers.lines import read_plan
from agents.models.base import ChatReply, FinishReason
from agents.settings.presets import load_settings
from agents.stages.understand import Understand
from agents.texts.replies import whole_sentences
from agents.turn import IDK
from tests.agent.scripted import ScriptedChat, context, run, turn


@pytest.mark.parametrize(
    ("text", "finish", "answer_text"),
    [
        ("the five principles of the state; the red is br", "length", "the five principles of the state"),
        ("the five principles of the sta", "length", None),
        ("red; white", "stop", "red; white"),
        ("They are many. One is bro", "length", "They are many."),
    ],
)
def test_of_a_cut_list_the_whole_items_are_kept(text: str, finish: FinishReason, answer_text: str | None) -> None:
    step_answer = read_step_answer(ChatReply(text, finish, (-0.1,)))
    assert (step_answer and step_answer.text) == answer_text


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("The tower was never", ""),
        ("", ""),
        ("It is 330 metres high. It was bui", "It is 330 metres high."),
        ("It is 330 metres high.", "It is 330 metres high."),
        ("It is high [1][2].", "It is high [1][2]."),
        ("It is 3.", ""),
        ("It stands near Mt.", ""),
        ("It was made by Dr. Smith in 1887. He", "It was made by Dr. Smith in 1887."),
        ("It is high.\nIt is ol", "It is high."),
        ("x" * 1_000_000, ""),
    ],
    ids=[
        "torn",
        "nothing",
        "one whole",
        "ended",
        "cited",
        "number",
        "abbreviation",
        "title inside",
        "lines",
        "endless",
    ],
)
def test_whole_sentences(text: str, sentences: str) -> None:
    assert whole_sentences(text) == sentences


def test_an_answer_stopped_after_it_was_said_is_one() -> None:
    candidate = read_candidate(
        ChatReply("Reason: [Info 1] says so.\nAnswer: The tower is 330 metres high. It wa", "abort")
    )
    assert candidate is not None
    assert candidate.text == "The tower is 330 metres high."
    assert read_candidate(ChatReply("Reason: it says so.\nAnswer: The tower is", "abort")) is None
    assert read_candidate(ChatReply("Reason: [Info 1] says so, hence it is high.", "abort")) is None


def test_a_torn_draft_keeps_its_steps_and_what_it_had_answered() -> None:
    torn = parse_draft(ChatReply("1. It is a tower.\n2. It is of iron.\nAnswer: It was not bu", "abort"), 5)
    assert len(torn.steps) == 2
    assert torn.answer == IDK
    assert (
        parse_draft(ChatReply("Answer: It was built in Paris. And the", "abort"), 5).answer == "It was built in Paris."
    )


def test_of_endless_replies_little_is_read() -> None:
    endless = ChatReply("tower " * 200_000, "stop")
    draft, long = read(draft_form(5), endless).value, read(CITED_ANSWER, endless).value
    assert len(draft.answer) <= MAX_READ
    assert long is None or len(long.text) <= MAX_READ, "no sentence of it is whole"


@pytest.mark.parametrize("finish", ["abort", "length"])
def test_a_torn_question_is_not_asked(finish: str) -> None:
    chat = ScriptedChat(lambda _: ChatReply("Where was Gustave", finish))  # type: ignore[arg-type]
    history = ({"role": "user", "content": "what is this?"}, {"role": "assistant", "content": "i do not know"})
    dialog_turn = turn("Where was he born?", history=history)
    run(Understand, [dialog_turn], context(load_settings("best", "embedded"), chat=chat, small_chat=chat))
    assert chat.requests
    assert dialog_turn.question == "Where was he born?"


def test_a_plan_cut_within_a_step_is_dropped_and_one_cut_after_its_steps_is_kept() -> None:
    steps = "1. ask: How heavy is an ox?\n2. ask: How heavy is a yak?\n"
    assert len(read_plan(ChatReply(steps, "length")).steps) == 2
    assert len(read_plan(ChatReply(f"{steps}These steps comp", "length")).steps) == 2
    assert read_plan(ChatReply(f"{steps}3. compute: larger [1]", "length")).steps == ()
    assert len(read_plan(ChatReply(f"{steps}3. compute: larger [1] [2]", "stop")).steps) == 3
