"""The searches of a turn beside those that its answer needs, by numbers counted by hand."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from agents.record import EvidenceFound, Exchange, SearchKind, StageRecord, TurnRecord
from evaluation.records import AnsweredTurn, GoldStep, JudgedTurn, TurnFacts
from evaluation.report.console_tables import print_process
from evaluation.report.html_report import ReportPart, write_report
from evaluation.scores import metrics, process
from evaluation.scores.metrics import MetricOptions
from evaluation.scores.process import PROCESS_METRICS, process_metric, read_process, summarise_process

TOWER, PAGE = GoldStep("image", "Red Tower"), GoldStep("web", "https://x.example/tower")
OTHER = GoldStep("web", "https://x.example/builder")


def judge(verdict: str, source: str, *steps: GoldStep) -> JudgedTurn:
    turn = AnsweredTurn("s", "i", 0, False, None, "", "", "", "q", "truth", "answer", 1)
    facts = TurnFacts(source=source, steps=steps)
    right, miss = verdict == "right", verdict == "declined"
    return JudgedTurn(turn, exact=False, correct=right, miss=miss, facts=facts)


def record(
    *searches: SearchKind, entity: str | None = None, evidence: Sequence[EvidenceFound] = (), calls: int = 1
) -> TurnRecord:
    ask = Exchange("answer", "text", "model")
    return TurnRecord(
        stages=(
            StageRecord("anything", entity=entity, searches=searches),
            StageRecord("another", evidence=tuple(evidence), exchanges=(ask,) * calls),
        )
    )


def page(step: GoldStep) -> EvidenceFound:
    return EvidenceFound("text", "web", "title", step.target)


def measure(judged: JudgedTurn, found: TurnRecord) -> dict[str, Any]:
    turn = read_process(judged, found)
    assert turn is not None
    return {name: metric.compute(turn) for name, metric in PROCESS_METRICS.items()}


def test_a_turn_that_searches_as_needed() -> None:
    found = record("image", "web", entity="RED tower", evidence=[page(PAGE)], calls=2)
    assert measure(judge("right", "both", TOWER, PAGE), found) == {
        "hit_per_step": 1.0, "image_searches": 1, "web_searches": 1, "over_retrieval": 0, "under_retrieval": 0,
        "deviation": 0, "right_without_hit": 0.0, "hit_and_wrong": 0.0, "model_calls": 2,
    }  # fmt: skip


def test_needless_and_missing_searches_are_counted_by_kind() -> None:
    values = measure(judge("declined", "web", PAGE, OTHER), record("image", "web", evidence=[page(OTHER)]))
    assert (values["over_retrieval"], values["under_retrieval"], values["deviation"]) == (1, 1, 0)
    assert values["hit_per_step"] == 0.5 and values["right_without_hit"] is None and values["hit_and_wrong"] is None
    lazy = measure(judge("right", "kg", TOWER), record())
    assert (lazy["over_retrieval"], lazy["under_retrieval"], lazy["deviation"]) == (0, 1, 1)
    assert lazy["right_without_hit"] == 1.0, "a lucky answer"


def test_one_image_search_finds_all_things_of_a_photo() -> None:
    lake = GoldStep("image", "Blue Lake")
    facts = EvidenceFound("The depth of Blue Lake is 20 m.", "kg", "Blue Lake", "https://i.example/1")
    values = measure(judge("wrong", "kg", TOWER, lake), record("image", entity="Red Tower", evidence=[facts]))
    assert values["hit_per_step"] == 1.0 and values["deviation"] == 0 and values["hit_and_wrong"] == 1.0


def test_a_page_about_the_thing_is_no_fact_of_the_graph() -> None:
    about = EvidenceFound("text", "web", "Red Tower", "https://x.example/tower")
    assert measure(judge("wrong", "kg", TOWER), record("web", evidence=[about]))["hit_per_step"] == 0.0


def test_an_answer_in_the_photo_needs_no_search() -> None:
    values = measure(judge("right", "image"), record("image", "web", "web"))
    assert values["hit_per_step"] is None and values["over_retrieval"] == 3 and values["right_without_hit"] is None


@pytest.mark.parametrize(
    ("judged", "found"),
    [
        (judge("declined", "nowhere"), record("image")),
        (judge("right", "kg", TOWER), None),
        (judge("right", "kg", TOWER), TurnRecord()),
    ],
)
def test_a_turn_of_which_nothing_is_known_is_left_out(judged: JudgedTurn, found: TurnRecord | None) -> None:
    assert read_process(judged, found) is None
    unstated = JudgedTurn(judged.turn, exact=False, correct=True, miss=False, facts=TurnFacts(source="kg"))
    assert read_process(unstated, record("image")) is None


def test_the_table_has_a_column_a_source_and_one_for_several_steps() -> None:
    turns = [
        read_process(judge("right", "kg", TOWER), record("image", entity="Red Tower")),
        read_process(judge("wrong", "both", TOWER, PAGE), record("image", entity="Red Tower")),
        None,
    ]
    groups = summarise_process(turns * 15)
    assert [(group.name, group.turns) for group in groups] == [
        ("graph", 15),
        ("graph and pages", 15),
        ("several steps", 15),
        ("all", 30),
    ]
    assert [group.format("hit_per_step") for group in groups] == ["100.0%", "50.0%", "50.0%", "75.0%"]
    assert [group.format("hit_and_wrong") for group in groups] == ["0.0%", "-", "-", "0.0%"]
    out = io.StringIO()
    print_process(Console(file=out, width=100), groups)
    text = out.getvalue()
    assert "hit per step" in text and "75.0%" in text
    print_process(Console(file=out, width=100), summarise_process(turns))
    print_process(Console(file=out, width=100), [])
    assert out.getvalue() == text, "a small run has no percentages of slices"


def test_the_report_has_the_table(tmp_path: Path) -> None:
    judged, found = judge("right", "kg", TOWER), record("image", entity="Red Tower")
    part = ReportPart("demo", [judged], {}, {judged.turn.key: replace(found, session_id="s", interaction_id="i")})
    text = write_report(tmp_path / "report.html", [part], {}).read_text()
    assert "Searches, by the source of the answer" in text and "<th>graph</th><th>all</th>" in text
    unknown = write_report(tmp_path / "report.html", [ReportPart("demo", [judged], {})], {}).read_text()
    assert "Searches, by the source" not in unknown


def test_a_metric_of_ones_own_is_a_row_and_a_name_is_given_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "_REGISTRY", registry := dict(PROCESS_METRICS))
    monkeypatch.setattr(metrics, "PROCESS_METRICS", registry)
    (tmp_path / "my_process.py").write_text(
        "from evaluation.scores.process import process_metric\n"
        "@process_metric('needed', 'needed searches per turn')\n"
        "def needed(turn):\n    return sum(turn.needed.values())\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert MetricOptions(metric=("my_process:needed",)).metric and registry["needed"].heading == "needed"
    with pytest.raises(ValueError, match="deviation is a process metric already"):

        @process_metric("mine", "mine")
        def deviation(_: Any) -> float:
            return 0.0
