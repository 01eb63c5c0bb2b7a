"""The recorded replies of the strong model are replayed as given and refused where they were not; and the tables of its answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from agents.models.base import ChatMessage, ChatRequest
from agents.record import EvidenceFound
from lab.strong_model.answers import LabelledAnswer, build_origin_rows, build_rows
from lab.strong_model.chat import RecordedChat, digest_request
from lab.strong_model.planted import FAULTS, Case, draw_cases, plant


def make_request(question: str, colour: str = "red") -> ChatRequest:
    return ChatRequest((ChatMessage("user", question, (Image.new("RGB", (40, 30), colour),)),), max_tokens=8)


def test_a_request_is_replayed_by_all_that_a_model_sees_of_it(tmp_path: Path) -> None:
    file = tmp_path / "replies.jsonl"
    file.write_text(json.dumps({"request": digest_request(make_request("What is this?")), "reply": "A wall."}) + "\n")
    chat = RecordedChat(str(file))
    known, other_words, other_picture = chat.chat(
        [make_request("What is this?"), make_request("What is that?"), make_request("What is this?", "blue")]
    )
    assert (known.text, known.finish_reason) == ("A wall.", "stop")
    for refused in (other_words, other_picture):
        assert refused.finish_reason == "error" and "was not recorded" in (refused.error or "")


def test_a_large_picture_is_recognised_as_it_was_looked_at() -> None:
    large = Image.new("RGB", (4096, 2048), "green")
    small = large.resize((1024, 512))
    one, other = (ChatRequest((ChatMessage("user", "q", (picture,)),)) for picture in (large, small))
    assert digest_request(one) == digest_request(other)


def answer(preset: str, by_eye: str, origin: str | None = "page", part: str = "museum") -> LabelledAnswer:
    labels = {"by_rule": "right", "by_eye": by_eye}
    return LabelledAnswer.model_validate(
        {"part": part, "preset": preset, "interaction_id": "1", "question": "q", "ground_truth": "t", "answer": "a"}
        | {"answerable": True, "calls": 2, "origin": origin, **labels}
    )  # fmt: skip


def test_the_table_counts_labels_and_calls_by_part_and_preset() -> None:
    answers = [
        answer("best", "right"),
        answer("best", "wrong", "own"),
        answer("best", "missing", None),
        answer("direct_rag", "right"),
    ]
    rows = build_rows(answers)
    assert rows[0] == ["museum", "best", "3 (3)", "1, 1, 1", "3, 0, 0", "2.00"]
    assert rows[1][1:4] == ["direct_rag", "1 (1)", "1, 0, 0"]
    assert build_origin_rows(answers[:3]) == [["own", "0", "1"], ["page", "1", "0"]]


def make_case(number: int) -> Case:
    evidence = (EvidenceFound(f"{number}0 m", "web", f"Thing {number}"),)
    return Case(("s", str(number)), f"q{number}", f"It is {number}0 m high.", f"Thing {number}", evidence, None)


CASES = [make_case(number) for number in range(1, 9)]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_makes_the_answer_wrong(fault: str) -> None:
    planted = plant(CASES[0], CASES[1], fault)  # type: ignore[arg-type]
    assert planted is not None and planted.answer != CASES[0].answer and planted.fault == fault
    titles = [chunk.title for chunk in planted.evidence]
    assert {"sum": ["Thing 1"], "draft": [], "passage": ["Thing 1", "Thing 1"], "entity": ["Thing 2"]}[fault] == titles


def test_cases_are_drawn_by_their_seed_as_many_of_each() -> None:
    drawn = list(draw_cases(CASES, 2, 3, 0))
    assert [case.fault for case in drawn] == ["none"] * 3 + [fault for fault in FAULTS for _ in range(2)]
    assert [case.question for case in drawn] == [case.question for case in draw_cases(CASES, 2, 3, 0)]
