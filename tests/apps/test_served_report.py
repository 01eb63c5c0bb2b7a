"""What ``crag serve --trace FILE`` wrote opens as a report, whatever state the file is in."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from agents.record import StageRecord, TurnRecord, Unanswered
from apps import crag
from apps.answering import Answerer
from apps.serving.app import Server, ServerLimits
from evaluation.report.served_report import ServedView
from tests.apps.conftest import PHOTO, crag_agent, data_url, listening, make_message

TURN = TurnRecord(
    "How tall is it?", "How tall is it?", "300 m", (StageRecord("answer", 0.5),), seconds=0.5, began=1_764_000_000.0
)


def write(path: Path, *records: TurnRecord, end: str = "\n") -> Path:
    path.write_text("\n".join(json.dumps(record.as_json()) for record in records) + end)
    return path


def report(*arguments: Any) -> tuple[int, str]:
    """Run the command; return its status and the page."""
    status = crag.main(["report", *map(str, arguments)])
    path = Path(arguments[0]).with_suffix(".html")
    return status, path.read_text() if path.is_file() else ""


def outcomes(page: str) -> list[str]:
    return re.findall(r'<article class="turn (\w+)"', page)


def test_what_a_server_answered_is_shown_without_a_verdict(tmp_path: Path) -> None:
    trace = tmp_path / "served" / "trace.jsonl"
    agent = crag_agent()
    with listening(Server(Answerer(agent, trace), model="m", key=None, limits=ServerLimits()).app) as url:
        body = {"model": "m", "messages": [make_message("How tall is this?", data_url(PHOTO))]}
        assert httpx.post(f"{url}/v1/chat/completions", json=body, timeout=60).status_code == 200
        status, page = report(trace)  # while the server runs
    assert (status, outcomes(page)) == (0, ["answered"])
    assert "300 m" in page and "entity <b>Red Tower</b>" in page and "How tall is this?" in page
    assert "reply 1 to answer" in page and "no photo kept" in page
    assert "Nobody judged these turns" in page
    for word in ("Truthfulness", "Accuracy", "Hallucination", "<dt>truth</dt>", "<dt>judge</dt>", "hallucinations"):
        assert word not in page, word


def test_declined_turns_and_errors_are_told_apart(tmp_path: Path) -> None:
    declined = replace(TURN, answer="I don't know", unanswered=Unanswered.WITHHELD, batch=1, began=TURN.began + 1)
    late = replace(declined, unanswered=Unanswered.TIME, batch=2, seconds=9.0, began=TURN.began + 2)
    other = replace(TURN, batch=3, began=TURN.began + 3)
    _, page = report(write(tmp_path / "t.jsonl", TURN, declined, late, other, replace(other, turn=1)))
    assert outcomes(page) == ["answered", "declined", "error", "answered", "answered"]
    cards = dict(re.findall(r'<div class="card"><span>([^<]*)</span><b>([^<]*)</b>', page))
    assert cards == {
        "Turns": "5", "Answered": "3", "Declined": "1", "Errors": "1", "Seconds a call, median": "0.50",
        "95% of calls within": "7.72 s",
    }  # fmt: skip
    assert (
        'data-filter="cause" data-value="the time was up"' in page
        and '<dt>error</dt><dd class="bad">the time was up' in page
    )
    assert page.count("2 turns in its call") == 2
    assert "2025-11-24 16:00:00 UTC" in page


def test_a_restarted_server_counts_its_calls_anew_and_every_turn_is_shown(tmp_path: Path) -> None:
    again = replace(TURN, began=TURN.began + 100, query="Again?")
    _, page = report(write(tmp_path / "t.jsonl", TURN, again))
    assert len(outcomes(page)) == 2 and "turns in its call" not in page


@pytest.mark.parametrize("half", ['{"query": "Who', "{", "\xe4"])
def test_a_line_that_is_being_written_is_left_out_in_silence(
    tmp_path: Path, half: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "t.jsonl", TURN)
    path.write_bytes(path.read_bytes() + half.encode("latin-1"))
    status, page = report(path)
    assert (status, len(outcomes(page))) == (0, 1)
    assert "left out" not in capsys.readouterr().out


def test_rotated_files_are_one_trace_and_broken_lines_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = write(tmp_path / "t.jsonl", replace(TURN, query="Second?", began=TURN.began + 9))
    old = write(tmp_path / "t.jsonl.1", replace(TURN, query="First?"))
    old.write_text(f"cut off by a copy\n{old.read_text()}")
    assert crag.main(["report", str(old), str(new)]) == 0
    page = (tmp_path / "t.html").read_text()
    assert page.index("First?") < page.index("Second?")
    assert "1 lines are left out; of the first: it is no JSON" in capsys.readouterr().out


def test_the_latest_turns_are_shown(tmp_path: Path) -> None:
    turns = [replace(TURN, query=f"Question {number}?", began=TURN.began + number) for number in range(5)]
    _, page = report(write(tmp_path / "t.jsonl", *turns), "--last", 2)
    assert len(outcomes(page)) == 2 and "Question 4?" in page and "Question 2?" not in page and "2 of 5" in page


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "it has no turn yet"),
        ('{"version": 1}\n', "has version 1"),
        ("nothing\n", "it is no JSON"),
    ],
)
def test_a_trace_with_nothing_to_show_is_refused(
    tmp_path: Path, content: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "t.jsonl").write_text(content)
    assert report(tmp_path / "t.jsonl") == (2, "")
    assert reason in capsys.readouterr().out


def test_what_is_no_trace_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert crag.main(["report", str(tmp_path)]) == 2
    assert crag.main(["report", str(tmp_path / "gone.jsonl")]) == 2
    assert crag.main(["report", str(write(tmp_path / "t.html", TURN))]) == 2
    stdout = capsys.readouterr().out
    assert "is a folder" in stdout and "there is no file" in stdout and "would replace the trace" in stdout
    assert (tmp_path / "t.html").read_text().startswith("{")


@pytest.mark.parametrize("how", ["absolute", "upwards", "link"])
def test_the_trace_is_not_replaced_under_another_name(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = write(tmp_path / "t.jsonl", TURN)
    (tmp_path / "link").symlink_to(trace)
    out = {"absolute": trace, "upwards": f"../{tmp_path.name}/t.jsonl", "link": "link"}[how]
    monkeypatch.chdir(tmp_path)
    assert crag.main(["report", "t.jsonl", "--out", str(out)]) == 2
    assert "would replace the trace" in capsys.readouterr().out and trace.read_text().startswith("{")


@pytest.mark.parametrize("began", [1e20, float("inf"), float("nan"), -1e20])
def test_what_is_no_time_is_left_out(tmp_path: Path, began: float) -> None:
    status, page = report(write(tmp_path / "t.jsonl", replace(TURN, began=began)))
    assert status == 0 and len(outcomes(page)) == 1 and "UTC" not in page


def test_questions_and_answers_that_were_not_kept_are_not_made_up(tmp_path: Path) -> None:
    bare = replace(TURN, query="", question="", answer="")
    _, page = report(write(tmp_path / "t.jsonl", bare))
    assert page.count("(not kept)") == 2 and outcomes(page) == ["declined"]
    view = ServedView(replace(bare, unanswered=Unanswered.MODEL))
    assert (view.verdict, view.error) == ("error", "the model failed")


def test_a_photo_that_was_kept_is_shown_and_no_other_file_is_opened(tmp_path: Path) -> None:
    agent = crag_agent()
    agent.settings = agent.settings.model_copy(
        update={"trace": agent.settings.trace.model_copy(update={"requests": True})}
    )
    agent.trace_to(tmp_path / "t.jsonl")
    agent.batch_generate_response(["How tall is this?"], [PHOTO])
    assert 'class="photo" src="data:image/webp' in report(tmp_path / "t.jsonl")[1]
    PHOTO.save(tmp_path / "secret.png")
    (tmp_path / "request_images").mkdir(exist_ok=True)
    outside = write(tmp_path / "o.jsonl", replace(TURN, photo="../secret"))
    assert 'class="photo"' not in report(outside)[1]
