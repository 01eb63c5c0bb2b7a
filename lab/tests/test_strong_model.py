"""The recorded replies of the strong model are replayed as given and refused where they were not; and the tables of its answers."""

from __future__ import annotations

import json
from pathlib import Path

from PIL import Image

from agents.crag_agent import CragAgent
from agents.models.base import ChatMessage, ChatRequest
from agents.settings.run_config import RunConfig
from lab.strong_model import chat
from lab.strong_model.answers import LabelledAnswer, build_origin_rows, build_rows
from lab.strong_model.chat import RecordedChat, digest_request
from mini_crag_mm import prepare
from mini_crag_mm.loader import PreparedSet

RECORDED = Path(chat.__file__).with_name("recorded.toml")


def make_request(question: str, colour: str = "red") -> ChatRequest:
    return ChatRequest((ChatMessage("user", question, (Image.new("RGB", (40, 30), colour),)),), max_tokens=8)


def test_a_request_is_replayed_by_all_that_a_model_sees_of_it(tmp_path: Path) -> None:
    file = tmp_path / "replies.jsonl"
    file.write_text(json.dumps({"request": digest_request(make_request("What is this?")), "reply": "A wall."}) + "\n")
    recorded = RecordedChat(str(file))
    known, other_words, other_picture = recorded.chat(
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


REPLAYED = {
    "d6f22f8d-9c98-5551-9068-303cf0829aed": "The animal with the hump on the left is a zebu.",
    "447d7fbc-34c4-5fc9-8303-b667a40347bc": "About 2.5 metres.",
    "8ca7d4ed-ec5f-5638-9026-a25b917855a5": "No, at 395 g this ball is too light: an association football must weigh 410 to 450 g.",
    "03e3de35-0f84-54c8-a38a-d245e665aaa0": "Raymond Loewy, who designed the livery of the VC-25 (Air Force One), was born in France.",
    "d6834fe7-a3bf-55d6-b727-6833b296e7b0": "Yes, females of the reindeer usually grow antlers too.",
    "45ad7c2e-aa13-5ef5-9c8e-a1ee27fb24fd": "Three red pillar boxes are standing here.",
    "c5715b69-1159-5128-9aea-b5fb72f0c259": "Venus takes longer to spin around once: 243.0 days against 58.65 days for Mercury.",
    "5549ccc7-3929-5849-8154-fce5c57595c2": "The left one, the Bradley Fighting Vehicle, entered service first, in 1981, before the Stryker in 2002.",  # noqa: E501
}
"""Answers of today's chain to eight questions of validation, by the recorded replies."""


def test_eight_turns_are_answered_again_from_the_recording(tmp_path: Path) -> None:
    """Replay over real set, search and stages: six of eight, because another processor may rank two passages the other way round."""
    prepare.main(["--cache", str(tmp_path), "--split", "validation"])
    config = RunConfig.read("best", str(RECORDED), cache=tmp_path, overrides=["today=2026-11-30"])  # as it was recorded
    turns = [
        turn
        for turn in PreparedSet("validation", tmp_path).turns(kinds=("single-turn",))
        if turn.turn.interaction_id in REPLAYED
    ]
    agent = CragAgent(
        config.pipeline(split="validation"), settings=config.settings, models=config.models(), prompts=config.prompts
    )
    answers = agent.batch_generate_response(
        [turn.turn.query for turn in turns], [turn.image for turn in turns], [[] for _ in turns]
    )
    same = [answer == REPLAYED[turn.turn.interaction_id] for turn, answer in zip(turns, answers, strict=True)]
    assert len(turns) == len(REPLAYED) and sum(same) >= 6
