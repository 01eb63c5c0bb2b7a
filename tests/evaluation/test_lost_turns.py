"""``crag test`` over a small collection in which each cause of a loss was made: a real index, and a chat model that follows a script."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agents.models.base import ChatReply, ChatRequest
from agents.record import EvidenceFound, Exchange, StageRecord, TurnRecord
from agents.search.build_index import main as build_index
from agents.settings.run_config import RunConfig
from agents.time_limits.deadline import NO_DEADLINE, Deadline
from evaluation.scores.losses import LOSSES, Loss, Way, find_answer, find_loss, holds_answer
from evaluation.studies import collection_check
from tests.evaluation.worlds import picture

PAGES = {
    "tickets": "# Tickets\nA family ticket costs 29 euros.",
    "parking": "# Parking\nParking a car costs 4 euros a day.",
    "lift": "# Lift\nThe lift to the tower costs 8 euros.",
    "tower": "# Opening of the tower\nThe tower opens for visitors on Sunday mornings.",
    "keeper": "# The keeper\nMartha Lind feeds the owls before dawn.",
    "shop": "# Shop\nThe shop sells honey of the museum's bees.",
}
QUESTIONS = {
    "What does a family ticket cost?": ("29 euros", "shown, and the model does not use it"),
    "What does parking a car cost a day?": ("4 euros", "held back: the model doubts its answer"),
    "What does a wedding cost?": ("900 euros", "on no page"),
    "Parking: does a car cost more a day than the lift?": ("8 euros", "ranked second, and the prompt shows one"),
    "What does the shop sell to visitors of the tower?": ("Martha Lind", "on a page that is not found"),
    "What is the phone number?": ("", "not to be answered"),
    "When does the tower open for visitors?": ("Sunday mornings", "the model fails"),
}


class Script:
    """Chat model that declines, but for three questions."""

    name = "script"

    def chat(self, requests: Sequence[ChatRequest], deadline: Deadline = NO_DEADLINE) -> list[ChatReply]:
        return [self._reply(request.messages[-1].content) for request in requests]

    def _reply(self, prompt: str) -> ChatReply:
        if "parking a car" in prompt.split("Question:")[-1]:
            return ChatReply("It costs 4 euros.", "stop", (-0.1,), first_token_probs={"I": 0.9, "It": 0.1})
        if "phone" in prompt.split("Question:")[-1]:
            return ChatReply("It is 555-1234.", "stop", (-0.1,), first_token_probs={"It": 0.9})
        if "When does the tower open" in prompt.split("Question:")[-1]:
            return ChatReply("", "error", error="out of memory")
        return ChatReply("I don't know", "stop", (-0.1,), first_token_probs={"I": 0.9})


PROFILE = f"""extends = "embedded"

[limits]
seconds_per_turn = 3600.0

[models.chat]
kind = "composed"
text = {{ kind = "{Script.__module__}:Script" }}
recogniser = {{ kind = "efficientnet-lite2" }}
ocr = {{ kind = "rapidocr" }}
"""


@pytest.fixture
def lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Each lost turn of a real run, by its question."""
    monkeypatch.chdir(tmp_path)
    house = tmp_path / "house"
    (house / "pages").mkdir(parents=True)
    for name, text in PAGES.items():
        (house / "pages" / f"{name}.md").write_text(text)
    rows = ["photo,question,answers", *(f",{question},{answer}" for question, (answer, _) in QUESTIONS.items())]
    (house / "questions.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "script.toml").write_text(PROFILE)
    assert build_index([str(house), "--cache", "cache", "--no-progress"]) == 0
    settings = ("rerank.k=2", "answer.k=1", "finalise.max_idk=0.5")
    command = ["--profile", "script.toml", "--preset", "direct_rag", "--cache", "cache", "--no-progress"]
    status = collection_check.main([str(house), *command, *(part for each in settings for part in ("--set", each))])
    assert status == 1  # one of seven turns is an error
    assert "answer shown: 3 of 6 (50%)" in capsys.readouterr().out
    return {each["question"]: each for each in json.loads(Path("results/house/1/lost.json").read_text())["lost"]}


def test_each_cause_that_was_made_is_told(lost: dict[str, Any]) -> None:
    used, withheld, unindexed, unshown, unfound, wrong, error = (lost[question] for question in QUESTIONS)
    assert used["why"] == "not used" and used["mend"] == "clearer words in pages/tickets.md, or another model"
    assert used["detail"] == "pages/tickets.md says it: place 1 of the 1 shown; the model declined"
    assert withheld["why"] == "withheld" and withheld["mend"].startswith("crag calibrate")
    assert unindexed["why"] == "not indexed" and unindexed["mend"].startswith("a page, or a column")
    assert (
        unshown["why"] == "not shown" and "pages/lift.md says it: rank 2 of rerank; answer took 1" in unshown["detail"]
    )
    assert unshown["mend"].startswith("--set answer.k=2")
    assert unfound["why"] == "not found" and unfound["detail"] == "pages/keeper.md says it, and is not in the evidence"
    assert unfound["mend"] == "words of the question in pages/keeper.md"
    assert wrong["why"] == "wrong" and wrong["detail"].endswith("it must not be answered")
    assert error["why"] == "error" and "out of memory" in error["detail"]
    assert [each for each in lost.values() if "calibrate" in each["mend"]] == [withheld, wrong]


def test_an_index_is_read_back(tmp_path: Path) -> None:
    house = tmp_path / "house"
    (house / "pages").mkdir(parents=True)
    (house / "pages" / "tickets.md").write_text(PAGES["tickets"])
    (house / "photos").mkdir()
    picture().save(house / "photos" / "mill.png")
    (house / "photos" / "mill.txt").write_text("Old Mill\n")
    config = RunConfig.read(cache=tmp_path / "cache", knowledge=house)
    assert config.read_indexed() is None and config.read_exhibits() == {}
    assert build_index([str(house), "--cache", str(tmp_path / "cache"), "--no-progress"]) == 0
    indexed = config.read_indexed()
    assert indexed is not None and ("pages/tickets.md", True) in [
        (name, holds_answer(text, ["29 euros"])) for name, text in indexed
    ]
    assert config.read_exhibits() == {(house / "photos" / "mill.png").resolve(): ("Old Mill",)}


def test_every_loss_has_words_and_a_way() -> None:
    ways = {
        Loss.ERROR: Way(is_error=True),
        Loss.UNJUDGED: Way(is_unjudged=True),
        Loss.NOT_INDEXED: Way(is_declined=True, is_indexed=False, is_found=False, is_recognised=False),
        Loss.NOT_SEARCHED: Way(is_declined=True, is_indexed=True, is_searched=False, is_found=False),
        Loss.CUT: Way(is_declined=True, is_indexed=True, is_searched=True, is_cut=True, is_found=True),
        Loss.NOT_PICTURED: Way(is_pictured=False, is_recognised=False, is_found=False),
        Loss.NOT_RECOGNISED: Way(is_declined=True, is_recognised=False, is_indexed=True, is_found=False),
        Loss.NOT_FOUND: Way(is_declined=True, is_indexed=True, is_found=False),
        Loss.NOT_SHOWN: Way(is_declined=True, is_found=True, is_shown=False),
        Loss.NOT_USED: Way(is_declined=True, is_found=True, is_shown=True),
        Loss.WITHHELD: Way(is_declined=True, is_withheld=True, is_shown=True),
        Loss.DECLINED: Way(is_declined=True),
        Loss.WRONG: Way(),
    }
    assert {loss: find_loss(way) for loss, way in ways.items()} == {loss: loss for loss in Loss}
    assert [*LOSSES] == [*Loss]
    assert find_loss(Way(is_answerable=False, is_shown=True)) is Loss.WRONG


def test_the_prompt_that_was_shown_counts_before_what_was_ranked() -> None:
    ranked = tuple(EvidenceFound(text, url=text[0]) for text in ("a", "b is 1874", "c"))
    stages = [StageRecord("rerank", evidence=ranked), StageRecord("answer", evidence=ranked[:2])]
    record = TurnRecord(stages=tuple(stages))
    unasked = find_answer(record, ["1874"])
    assert unasked is not None and not unasked.is_shown
    stages[1] = StageRecord("answer", evidence=ranked[:2], exchanges=(Exchange("answer", "text", "m"),))
    shown = find_answer(TurnRecord(stages=tuple(stages)), ["1874"])
    assert shown is not None and shown.is_shown and (shown.rank, shown.kept, shown.source) == (2, 2, "b")
    stages[1] = StageRecord("answer", evidence=ranked[:1], exchanges=(Exchange("answer", "text", "m"),))
    dropped = find_answer(TurnRecord(stages=tuple(stages)), ["1874"])
    assert dropped is not None and (dropped.dropped_by, dropped.rank, dropped.kept) == ("answer", 2, 1)
    assert dropped.is_prefix and find_answer(TurnRecord(stages=tuple(stages)), ["1875"]) is None
