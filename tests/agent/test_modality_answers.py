"""MoqaGPT: what each modality answers by itself, and what becomes of it."""

from __future__ import annotations

import pytest

from agents.evidence.passages import PICTURE_KEY, classify_modality
from agents.methods.modality_fusion import all_agree, select_most_trusted
from agents.models.base import ChatReply, ChatRequest
from agents.settings.presets import load_settings
from agents.stages.modality_answers import ModalityAnswers
from agents.turn import IDK, Candidate, Evidence, Turn
from tests.agent.scripted import ScriptedChat, context, run, turn

PICTURE = Evidence("This is Big Ben.", "kg", "Big Ben", key=PICTURE_KEY)
ROW = Evidence("The height of Big Ben is 96 m.", "kg", "Big Ben", key="height")
PAGE = Evidence("Big Ben is 316 feet high.", "web", "Big Ben")


class Says:
    """Answers by the evidence that a prompt shows; a mapping of modality to answer, ``fused`` for the second call."""

    def __init__(self, **answers: str) -> None:
        self.answers = answers

    def __call__(self, request: ChatRequest) -> str | ChatReply:
        prompt = request.messages[-1].content
        if "Answers:" in prompt:
            return self.answers["fused"]
        kinds = [kind for kind, chunk in (("image", PICTURE), ("table", ROW), ("text", PAGE)) if chunk.text in prompt]
        assert len(kinds) <= 1  # each modality by itself
        reply_text = self.answers[kinds[0] if kinds else "none"]
        return ChatReply(
            reply_text, "error" if reply_text == "broken" else "stop", (-0.1 if kinds == ["table"] else -0.5,)
        )


def make_turn(*evidence: Evidence) -> Turn:
    return turn("How high is it?", evidence=evidence)


@pytest.mark.parametrize(
    ("answers", "answer", "calls"),
    [
        ({"image": IDK, "table": "96 m", "text": "316 feet", "fused": "96 m or 316 feet"}, "96 m or 316 feet", [3, 1]),
        ({"image": IDK, "table": "96 m", "text": "It is 96 m"}, "96 m", [3, 0]),  # the most trusted of those that agree
        ({"image": IDK, "table": IDK, "text": "316 feet"}, "316 feet", [3, 0]),
        ({"image": IDK, "table": IDK, "text": IDK}, IDK, [3, 0]),
        ({"image": "broken", "table": "96 m", "text": "316 feet", "fused": ""}, "96 m", [3, 1]),
    ],
)
def test_answers_that_differ_are_fused_and_refusals_count_nothing(
    answers: dict[str, str], answer: str, calls: list[int]
) -> None:
    chat = ScriptedChat(Says(**answers))
    dialog_turn = make_turn(PAGE, ROW, PICTURE)
    run(ModalityAnswers, [dialog_turn], context(load_settings("moqagpt", "no overlay"), chat=chat))
    assert dialog_turn.candidate is not None and dialog_turn.candidate.text == answer
    assert [size for size in chat.batches if size] == [size for size in calls if size]
    assert ("modality_answers" in (dialog_turn.error or "")) is ("broken" in answers.values())


def test_one_call_serves_the_batch_and_without_evidence_the_model_answers_alone() -> None:
    chat = ScriptedChat(Says(table="96 m", text="316 feet", none="blue", fused="96 m"))
    batch = [make_turn(PAGE, ROW), make_turn(), make_turn(ROW)]
    run(ModalityAnswers, batch, context(load_settings("moqagpt", "no overlay"), chat=chat))
    assert chat.batches == [4, 1]
    assert [dialog_turn.candidate and dialog_turn.candidate.text for dialog_turn in batch] == ["96 m", "blue", "96 m"]
    assert 'From web pages: "316 feet"\nFrom tables: "96 m"' in chat.requests[-1].messages[-1].content


def test_the_modality_of_a_chunk() -> None:
    named = Evidence("The name of Big Ben is Big Ben.", "kg", "Big Ben", key="name")
    assert [classify_modality(chunk) for chunk in (PICTURE, ROW, PAGE, named)] == ["image", "table", "text", "table"]


def test_rules_of_fusion() -> None:
    assert all_agree([]) and all_agree(["96 m"]) and all_agree(["96 m", "It is 96 m"])
    assert not all_agree(["96 m", "It is 96 m", "97 m"])
    low, high, unknown = Candidate("a", 0.2), Candidate("b", 0.9), Candidate("c", None)
    assert select_most_trusted([unknown, low, high]) is high
    assert select_most_trusted([unknown]) is unknown and select_most_trusted([]) is None
