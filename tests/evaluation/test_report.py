from __future__ import annotations

import base64
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from agents.record import (
    CANDIDATE,
    DRAFT,
    FROM_EVIDENCE,
    OWN_KNOWLEDGE,
    BoxFound,
    Decision,
    EvidenceFound,
    Exchange,
    PictureFound,
    Signal,
    StageRecord,
    TurnRecord,
)
from agents.search.collection import Collection
from evaluation.records import JudgedTurn, RunLogLine
from evaluation.report.html_report import ReportPart, TurnView, write_report
from evaluation.report.record_texts import collect_notes, format_value
from evaluation.report.run_plots import average_stage_times, compute_risk_curves
from evaluation.report.thumbnails import cut_crops, make_captions, make_thumbnail
from evaluation.rules import STARTER_KIT
from tests.evaluation.worlds import judged, picture


def _cost(turn: JudgedTurn, batch: int, place: int, note: str | None = None) -> tuple[tuple[str, str], RunLogLine]:
    key = (turn.turn.session_id, turn.turn.interaction_id)
    return key, RunLogLine(*key, batch, place, 2, 1.25, 2.5, None, note)


def _record(turn: JudgedTurn, *stages: StageRecord, **more: Any) -> TurnRecord:
    """Make the record of a turn."""
    about = turn.turn
    return TurnRecord(
        about.query, about.query, more.pop("answer", about.agent_response), stages,
        session_id=about.session_id, interaction_id=about.interaction_id, **more,
    )  # fmt: skip


def _by_key(*records: TurnRecord) -> dict[tuple[str, str], TurnRecord]:
    return {record.key: record for record in records}


def test_what_stages_found_is_read_whatever_they_are_called() -> None:
    """A later stage knows better; what does not run tells nothing."""
    record = TurnRecord(
        stages=(
            StageRecord("a", boxes=(BoxFound(0, 0, 10, 10, "cup", 0.9), BoxFound(5, 5, 1, 1), BoxFound(0, 0, 1e300, 3))),
            StageRecord("b", entity="Mug", pictures=(PictureFound("Cup", 0.91), PictureFound("Mug", 0.5)), queries=("mug",)),
            StageRecord("c", entity="Cup", evidence=(EvidenceFound("A cup.", score=0.5),), answers={DRAFT: "A mug."}),
            StageRecord("d", 0.0, "skipped", "time", "no time", notes={"odd": {"a": [1]}}),
        )
    )  # fmt: skip
    assert record.entity == "Cup"
    assert record.nearest is None
    assert record.boxes == (BoxFound(0, 0, 10, 10, "cup", 0.9),)
    assert [item.text for item in record.evidence] == ["A cup."]
    assert (record.queries, record.answers, record.get_note("odd")) == (("mug",), {"draft": "A mug."}, {"a": [1]})
    assert collect_notes(record.stages[1])["pictures"] == "Cup 0.91, Mug 0.50"
    assert collect_notes(record.stages[3]) == {"odd": '{"a": [1]}'}


class _Page(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.tags.append((tag, values))
        self.links += [str(values[name]) for name in ("src", "href") if values.get(name)]

    def of(self, tag: str, kind: str) -> list[dict[str, str | None]]:
        return [values for name, values in self.tags if name == tag and kind in str(values.get("class", "")).split()]


@pytest.fixture
def page(tmp_path: Path) -> str:
    turns = [*judged("ch", "one"), *judged("m", "two", ego=False)]
    evil = turns[0].turn.__class__(
        **{**turns[0].turn.to_dict(), "query": "<script>alert(1)</script>?", "domain": 'a"b'}
    )
    turns[0] = JudgedTurn(evil, exact=False, miss=False, correct=True)
    evidence = (EvidenceFound("<img src=x onerror=y>", url="javascript:alert(1)", title="T"),)
    stage = StageRecord("<b>x</b>", 0.5, boxes=(BoxFound(10, 10, 400, 300, "cup", 0.8),), evidence=evidence)
    costs = dict([_cost(turns[0], 0, 0), _cost(turns[2], 0, 1, "two has no picture")])
    traces = _by_key(_record(turns[0], stage, answer="answer"))
    part = ReportPart("demo", turns, {"one": lambda: picture(size=(1200, 900)), "two": lambda: None}, traces, costs)
    return write_report(tmp_path / "out" / "report.html", [part], {"preset": "best", "judge": "rule"}).read_text()


def test_the_report_loads_nothing_from_elsewhere(page: str) -> None:
    parsed = _Page(page)
    assert parsed.links
    assert all(link.startswith("data:image/webp;base64,") for link in parsed.links)
    assert "@import" not in page
    assert "url(" not in page


def test_text_of_the_run_is_shown_and_never_run(page: str) -> None:
    assert "<script>alert(1)" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;?" in page
    assert "&lt;img src=x onerror=y&gt;" in page and "&lt;b&gt;x&lt;/b&gt;" in page
    assert "javascript:" not in page
    assert len(_Page(page).of("article", "turn")) == 3


def test_turns_carry_what_the_filters_ask_for(page: str) -> None:
    turns = _Page(page).of("article", "turn")
    assert [turn["data-verdict"] for turn in turns] == ["correct", "hallucination", "miss"]
    assert turns[0]["data-domain"] == 'a"b'
    assert [turn["data-question"] for turn in turns] == ["with its picture"] * 2 + ["without its picture"]
    assert page.count(">no picture</span>") == 1
    assert '<select id="question"' in page and "Asked without picture" in page
    assert "two has no picture" in page
    assert "1.25 s" in page


def test_turns_are_filtered_by_why_they_were_lost(tmp_path: Path) -> None:
    """By the evidence where accepted answers are known, else by what the agent says of itself."""
    turns = [*judged("cmm", "one"), *judged("hm", "two")]
    shown = StageRecord(
        "answer", evidence=(EvidenceFound("It opened in 1874."),), exchanges=(Exchange("a", "text", "m"),)
    )
    held = StageRecord("finalise", decision=Decision("1874", False, "44% sure, 50% needed"))
    records = [
        _record(turns[1], shown),
        _record(turns[2], shown, held),
        _record(turns[3], shown),
        _record(turns[4], held),
    ]
    accept = {turn.turn.interaction_id: ("1874",) for turn in turns[1:4]}
    part = ReportPart("demo", turns, {}, _by_key(*records), accept=accept)
    text = write_report(tmp_path / "report.html", [part], {}).read_text()
    losses = [turn["data-lost"] for turn in _Page(text).of("article", "turn")]
    assert losses == ["", "not used", "withheld", "not used", "withheld"]
    assert '<select id="lost"' in text and "lost: not used" in text
    assert "Answer shown, of 3" in text and "shown, in 5 tokens of evidence on average" in text


def test_evidence_links_to_files_of_the_collection_by_relative_paths(tmp_path: Path) -> None:
    museum = tmp_path / "my museum"
    (museum / "pages").mkdir(parents=True)
    (museum / "pages" / "guide.pdf").write_bytes(b"%PDF-")
    (museum / "questions.csv").write_text("secret")
    (turn,) = judged("c")
    urls = ("pages/guide.pdf#page=3", "questions.csv", "javascript:alert(1)", "https://example.org/a")
    evidence = tuple(
        EvidenceFound("The built of Old Mill is 1874.", "kg", "Old Mill", url, changed=url == "questions.csv")
        for url in urls
    )
    part = ReportPart("demo", [turn], {}, _by_key(_record(turn, StageRecord("x", evidence=evidence))))
    page = write_report(
        tmp_path / "results" / "1" / "report.html", [part], {}, Collection(museum).find_source
    ).read_text()
    links = re.findall(r'<a href="([^"]*)"', page)
    assert links == ["../../my%20museum/pages/guide.pdf#page=3", "https://example.org/a"]
    assert "Built: 1874" in page and "The built of" not in page
    assert page.count("changed since crag index") == 1 and "questions.csv · <b>changed since crag index" in page
    alone = write_report(tmp_path / "report.html", [part], {}).read_text()
    assert re.findall(r'<a href="([^"]*)"', alone) == ["https://example.org/a"]


def test_answers_that_were_not_judged_look_like_no_verdict(tmp_path: Path) -> None:
    turns = [replace(turn, judge_failed=number == 0) for number, turn in enumerate(judged("hh"))]
    page = write_report(tmp_path / "report.html", [ReportPart("demo", turns, {})], {}).read_text()
    assert page.count('<article class="turn unjudged"') == page.count('<article class="turn hallucination"') == 1
    assert '<option value="unjudged">not judged</option>' in page


def test_photos_are_small(page: str) -> None:
    source = re.search(r'class="photo" src="data:image/webp;base64,([^"]+)"', page)
    assert source is not None
    image = Image.open(io.BytesIO(base64.b64decode(source[1])))
    assert max(image.size) == 300
    assert len(_Page(page).of("div", "crops")) == 1


@pytest.mark.parametrize("mode", ["RGB", "L", "P", "RGBA", "LA", "CMYK", "I;16", "1", "F"])
def test_every_mode_of_image_can_be_shown(mode: str) -> None:
    image = Image.new(mode, (800, 400))
    boxes = [BoxFound(-50, -50, 900, 500, "all"), BoxFound(790, 390, 791, 391), BoxFound(2000, 2000, 2100, 2100)]
    assert make_thumbnail(image, boxes).size == (300, 150)
    assert [number for number, _ in cut_crops(image, boxes)] == [0, 1]


@pytest.mark.parametrize(
    ("labels", "captions"),
    [
        (["object", "object"], ["1", "2"]),
        (["cup", "cup", "plate"], ["1 cup", "2", "3 plate"]),
        (["", "cup"], ["1", "2 cup"]),
    ],
)
def test_a_label_that_tells_no_box_apart_is_not_written(labels: list[str], captions: list[str]) -> None:
    assert make_captions([BoxFound(0, 0, 1, 1, label) for label in labels]) == captions


def test_an_empty_run_has_a_report_too(tmp_path: Path) -> None:
    text = write_report(tmp_path / "report.html", [ReportPart("none", [], {})], {}).read_text()
    assert "0 turns" in text
    json.dumps(text)


def test_disagreeing_sources_are_counted_with_their_scores(tmp_path: Path) -> None:
    turns = judged("chmc", "one")
    notes = [{"prki": True, "vtki": False}, {"prki": False}, {"prki": None, "vtki": True}, {"prki": "yes"}]
    traces = _by_key(*(_record(turn, StageRecord("x", notes=note)) for turn, note in zip(turns, notes, strict=True)))
    part = ReportPart("demo", turns, {}, traces, dict(_cost(turn, 0, place) for place, turn in enumerate(turns)))
    counts = {label: (scores.total, scores.correct) for label, scores in part.conflicts.items()}
    assert counts == {
        "PRKI: own and retrieved answer differ": (1, 1),
        "own and retrieved answer agree": (1, 0),
        "VTKI: picture and text point to different entries": (1, 0),
        "picture and text point to one entry": (1, 1),
    }
    assert "PRKI: own and retrieved answer differ" in write_report(tmp_path / "r.html", [part], {}).read_text()
    assert ReportPart("plain", turns, {}).conflicts == {}


def test_conflicts_and_risk_are_of_the_turns_that_the_rules_count() -> None:
    """The starter kit counts what follows two failures as missing, in every group."""
    turns = [*judged("hhcccc", "one"), *judged("ccccc", "two")]
    stage = StageRecord("x", signals={"p_yes": Signal(0.5)}, decision=Decision("x", given=True), notes={"prki": True})
    traces = _by_key(*(_record(turn, stage) for turn in turns))
    part = ReportPart("demo", turns, {}, traces, rules=STARTER_KIT)
    (scores,) = part.conflicts.values()
    assert (scores.total, scores.correct, scores.miss) == (11, 5, 4)
    (curve,) = part.risk
    assert curve.points == ((pytest.approx(100 * 7 / 11, abs=0.01), pytest.approx(100 * 2 / 7, abs=0.01)),)


def test_two_hundred_turns_with_real_photos_stay_below_five_megabytes(tmp_path: Path) -> None:
    """Measured on ten, each with more than a turn of a preset has: six boxes, three crops, eight chunks, twelve long notes."""
    scenes = sorted((Path(__file__).parents[2] / "mini_crag_mm" / "scenes").glob("*.webp"))[::28][:10]
    turns = [turn for n in range(10) for turn in judged("h", f"s{n}")]
    chunk = EvidenceFound("word " * 120, "web", "t" * 20, "https://u.example/", 0.5)
    boxes = tuple(BoxFound(90 * n, 50 * n, 90 * n + 400, 50 * n + 300, "cup") for n in range(6))
    stages = (
        StageRecord("ground", 1.0, boxes=boxes),
        StageRecord("rerank", 1.0, evidence=(chunk,) * 8),
        *(StageRecord(f"stage {n}", 0.5, notes={"reply": "word " * 40}) for n in range(12)),
    )
    traces = _by_key(*(_record(turn, *stages, answer="answer") for turn in turns))
    photos = {f"s{n}": (lambda path=path: Image.open(path)) for n, path in enumerate(scenes)}

    def size(part: ReportPart) -> int:
        return write_report(tmp_path / "r.html", [part], {}).stat().st_size

    empty, full = size(ReportPart("none", [], {})), size(ReportPart("demo", turns, photos, traces))
    assert 10_000 < (full - empty) / 10 < (5_000_000 - empty) / 200


def test_answers_and_checks_of_a_record_are_shown_once() -> None:
    turn = judged("m")[0]
    answers = {FROM_EVIDENCE: "A dog.", OWN_KNOWLEDGE: "I don't know."}
    final = Decision("a dog", given=False, reason="gate", probability=0.41)
    stages = (
        StageRecord("dual_answer", answers=answers),
        StageRecord("consistency", checks={"own answer agrees": False}),
        StageRecord("verify", checks={"verifier's P(yes)": 0.256}),
        StageRecord("image_search", notes={"model": "clip"}),
        StageRecord("finalise", answers={CANDIDATE: "a dog"}, checks={"gate": 0.41}, decision=final),
    )
    view = TurnView(turn, None, None, None, _record(turn, *stages, answer="I don't know"))
    # the candidate is the same, the own answer is what was given
    assert view.other_answers == {"from evidence": "A dog."}
    assert {name: format_value(value) for name, value in view.checks.items()} == {
        "own answer agrees": "no", "verifier's P(yes)": "0.256", "gate": "0.41", "decision": "abstained: gate",
    }  # fmt: skip
    assert view.trace is not None and view.trace.decision == final


def test_the_timeline_puts_stages_one_after_the_other() -> None:
    stages = (
        StageRecord("a", 1.0),
        StageRecord("b", status="skipped", cause="time", reason="no time"),
        StageRecord("c", 3.0),
    )
    view = TurnView(judged("c")[0], None, None, None, TurnRecord(stages=stages))
    assert [(span.start, span.width) for span in view.timeline] == [(0.0, 25.0), (25.0, 0.0), (25.0, 75.0)]
    assert TurnView(judged("c")[0], None, None, None, None).timeline == []


def test_time_by_stage_is_shared_by_the_turns_of_a_call() -> None:
    keys = [("s", "0"), ("s", "1"), ("t", "0")]
    both = TurnRecord(stages=(StageRecord("a", 4.0), StageRecord("b", 2.0)))
    alone = TurnRecord(stages=(StageRecord("a", 5.0), StageRecord("b", 0.0, "skipped", "time", "no time")))
    costs = {key: RunLogLine(*key, 0, 0, size, 1.0, 1.0, None, None) for key, size in zip(keys, (2, 2, 1), strict=True)}
    a, b = average_stage_times(dict(zip(keys, (both, both, alone), strict=True)), costs)
    assert (a.seconds, a.turns) == (pytest.approx((2 + 2 + 5) / 3), 3)
    assert (b.seconds, b.turns) == (pytest.approx((1 + 1 + 0) / 3), 2)
    assert a.share == pytest.approx(900 / 11)


def test_risk_rises_with_coverage_of_all_turns() -> None:
    """Ten turns, of which five are answered: the surest two right, then two wrong ones, then a right one."""
    turns = [judged(verdict, f"s{n}")[0] for n, verdict in enumerate("cchhcmmmmm")]
    unknown = {"mean_probability": Signal(float("nan"))}  # no number: no curve
    final = [
        StageRecord(
            "finalise",
            signals={"p_idk": Signal(n / 10, negative=True), **unknown},
            decision=Decision("x", given=True),
        )
        for n in range(10)
    ]
    traces = _by_key(*(_record(turn, stage) for turn, stage in zip(turns, final, strict=True)))
    (curve,) = compute_risk_curves(turns, traces)
    assert curve.points == ((10, 0), (20, 0), (30, 33.33), (40, 50), (50, 40))
    assert compute_risk_curves(turns[1:], traces) == []  # four answers are no curve


def test_an_answer_that_the_judge_failed_on_is_no_risk() -> None:
    turns = judged("ccccchhhhh")
    stage = StageRecord("finalise", signals={"p_yes": Signal(0.5)}, decision=Decision("x", given=True))
    traces = _by_key(*(_record(turn, stage) for turn in turns))
    (curve,) = compute_risk_curves([replace(turn, judge_failed=not turn.correct) for turn in turns], traces)
    assert curve.points == ((100, 0),)
