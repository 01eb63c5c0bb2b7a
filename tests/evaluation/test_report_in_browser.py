"""The report in a real browser: filters, keys, colours and widths, by scripts that run inside the page of headless Chromium."""

from __future__ import annotations

import html
import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agents.record import (
    FROM_EVIDENCE,
    OWN_KNOWLEDGE,
    BoxFound,
    Decision,
    EvidenceFound,
    Signal,
    StageRecord,
    TurnRecord,
    Unanswered,
)
from evaluation.records import RunLogLine
from evaluation.report.html_report import ReportPart, write_report
from evaluation.report.served_report import write_served_report
from tests.evaluation.worlds import judged, picture
from tests.support.chromium import CHROMIUM, NO_CHROMIUM

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=NO_CHROMIUM)

PHONE, DESK = 390, 1280
DOMAINS = ("plants and gardening", "general object recognition", "food")

_BEFORE = "<script>window.slips = []; addEventListener('error', event => slips.push(event.message));</script>"
_TELL = """<script>
const pressed = name => new KeyboardEvent("keydown", {key: name, bubbles: true, cancelable: true});
const key = name => (document.activeElement || document.body).dispatchEvent(pressed(name));
const shown = () => [...document.querySelectorAll(".turn")].filter(turn => turn.offsetParent)
    .map(turn => turn.querySelector("b").textContent);
const set = (id, value) => { const field = document.getElementById(id); field.value = value; field.dispatchEvent(new Event("input")); };
const count = () => document.getElementById("count").textContent;
addEventListener("load", () => { const said = (() => { %s })(); parent.postMessage(JSON.stringify({said, slips}), "*"); });
</script>"""
_FRAME = """<body><iframe src="page.html" style="width:%dpx;height:900px;border:0"></iframe><pre id="said"></pre>
<script>addEventListener("message", event => { document.getElementById("said").textContent = event.data; });</script>"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A report of six questions with everything that it can show, and a long word."""
    turns, traces, costs = [], {}, {}
    for number, verdict in enumerate("cchhmm"):
        turn = judged(verdict, f"s{number}", domain=DOMAINS[number % 3], ego=number % 2 == 0)[0]
        answered_turn = replace(
            turn.turn, query=f"Question {number}?", agent_response=f"answer {number} " + "x" * 90 * (number == 2)
        )
        turns.append(replace(turn, turn=answered_turn))
        chunk = EvidenceFound("Evidence. " * 30, "web", "T", "https://pages.example/" + "y" * 80, 0.5)
        signals = {"p_yes": Signal(0.9 - number / 10), "mean_probability": Signal(0.5 + number / 20)}
        answers = {FROM_EVIDENCE: answered_turn.agent_response, OWN_KNOWLEDGE: "another thing"}
        stages = (
            StageRecord("ground", 1.0, boxes=(BoxFound(0, 0, 500, 500, "cup"), BoxFound(300, 200, 800, 700, "cup"))),
            StageRecord("dual_answer", 3.0, answers=answers, evidence=(chunk,)),
            StageRecord("verify", 0.5, checks={"verifier": True, "verifier's P(yes)": 0.75}, notes={"reason": "z" * 200}),
            StageRecord("finalise", 0.0, checks={"gate": 0.7}, signals=signals,
                        decision=Decision(answered_turn.agent_response, given=True, probability=0.7)),
        )  # fmt: skip
        record = TurnRecord(answered_turn.query, answered_turn.query, answered_turn.agent_response, stages, turn=number)
        traces[answered_turn.key] = replace(
            record, session_id=answered_turn.session_id, interaction_id=answered_turn.interaction_id
        )
        costs[answered_turn.key] = RunLogLine(*answered_turn.key, 0, number, 6, 1.0, 6.0, None, None)
    turns[5] = replace(turns[5], miss=False)  # five answers: enough for curves
    photos = {f"s{number}": (lambda: picture(size=(1200, 900))) for number in range(6)}
    part = ReportPart("demo", turns, photos, traces, costs)
    path = tmp_path_factory.mktemp("report") / "report.html"
    return write_report(path, [part], {"judge": "j" * 120}).read_text()


def in_browser(page: str, folder: Path, script: str, width: int = DESK) -> Any:
    """What a script in the page returns, once it is loaded in a frame of this width (a window has at least 500 pixels)."""
    whole = page.replace("<head>", f"<head>{_BEFORE}").replace("</body>", _TELL % script + "</body>")
    (folder / "page.html").write_text(whole)
    (folder / "frame.html").write_text(_FRAME % width)
    assert CHROMIUM is not None
    command = [
        CHROMIUM, "--headless", "--hide-scrollbars", "--no-sandbox", "--disable-gpu", "--window-size=1400,1000",
        f"--user-data-dir={folder / 'profile'}",
        "--virtual-time-budget=5000", "--dump-dom", (folder / "frame.html").as_uri(),
    ]  # fmt: skip
    dumped = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    match = re.search(r'<pre id="said">(.+?)</pre>', dumped, re.DOTALL)
    assert match is not None, dumped[-500:]
    result = json.loads(html.unescape(match[1]))
    assert result["slips"] == []
    return result["said"]


def test_filters_search_and_rows_choose_turns(page: str, tmp_path: Path) -> None:
    result = in_browser(page, tmp_path, """
        const steps = [[shown().length, count()]];
        set("verdict", "correct"); steps.push([shown(), count()]);
        set("domain", "plants and gardening"); steps.push([shown(), count()]);
        document.getElementById("clear").click(); steps.push([shown().length, count()]);
        set("text", "QUESTION 4?"); steps.push([shown(), count()]);
        set("text", "");
        [...document.querySelectorAll("tr[data-filter=picture]")].find(row => row.dataset.value === "other").click();
        steps.push([shown(), document.getElementById("picture").value]);
        steps.push([...document.querySelectorAll(".session")].filter(each => each.offsetParent).length);
        return steps;
    """)  # fmt: skip
    assert result == [
        [6, "6 turns"],
        [["Question 0?", "Question 1?"], "2 of 6 turns"],
        [["Question 0?"], "1 of 6 turns"],
        [6, "6 turns"],
        [["Question 4?"], "1 of 6 turns"],
        [["Question 1?", "Question 3?", "Question 5?"], "other"],
        3,
    ]


def test_served_turns_are_chosen_by_outcome_and_cause(tmp_path: Path) -> None:
    causes = (None, Unanswered.WITHHELD, Unanswered.TIME, Unanswered.TIME)
    turns = [
        TurnRecord(f"Question {number}?", answer="300 m", unanswered=cause, began=1.0 + number, batch=number)
        for number, cause in enumerate(causes)
    ]
    page = write_served_report(tmp_path / "served.html", turns, tmp_path, {}).read_text()
    result = in_browser(page, tmp_path, """
        const steps = [shown().length];
        key("1"); steps.push(shown()); key("2"); steps.push(shown()); key("3"); steps.push(shown().length); key("0");
        document.querySelector("tr[data-filter=cause]").click(); steps.push([shown(), count()]);
        steps.push(document.documentElement.scrollWidth);
        return steps;
    """, PHONE)  # fmt: skip
    assert result == [4, ["Question 0?"], ["Question 1?"], 2, [["Question 2?", "Question 3?"], "2 of 4 turns"], PHONE]


def test_a_heading_goes_with_the_last_of_its_turns(tmp_path: Path) -> None:
    parts = [ReportPart(name, judged(verdict, name), {}) for name, verdict in (("one", "c"), ("two", "h"))]
    page = write_report(tmp_path / "report.html", parts, {}).read_text()
    result = in_browser(page, tmp_path, """
        const every = [...document.querySelectorAll("section > h2")];
        const headings = () => every.filter(each => each.offsetParent).map(each => each.textContent);
        const steps = [headings()];
        set("verdict", "hallucination"); steps.push(headings());
        return steps;
    """)  # fmt: skip
    assert result == [["one: turns", "two: turns"], ["two: turns"]]


def test_keys_walk_through_the_turns_that_are_shown(page: str, tmp_path: Path) -> None:
    result = in_browser(page, tmp_path, """
        const here = () => document.activeElement.querySelector("b")?.textContent ?? document.activeElement.id;
        const steps = [];
        key("j"); steps.push(here()); key("j"); key("j"); steps.push(here()); key("k"); steps.push(here());
        key("o"); steps.push(document.activeElement.querySelector("details").open);
        key("o"); steps.push(document.activeElement.querySelector("details").open);
        key("3"); document.activeElement.blur(); key("j"); steps.push(here()); key("j"); key("j"); key("j"); key("j"); steps.push(here());
        key("0"); steps.push(count());
        key("4"); steps.push(count()); key("0");
        key("/"); steps.push(here());
        key("3"); steps.push(document.getElementById("verdict").value);
        key("Escape"); steps.push(document.activeElement === document.body);
        return steps;
    """)  # fmt: skip
    assert result == [
        "Question 0?",
        "Question 2?",
        "Question 1?",
        True,
        False,
        "Question 2?",
        "Question 5?",
        "6 turns",
        "0 of 6 turns",
        "text",
        "",
        True,
    ]


_WIDTHS = """
    for (const details of document.querySelectorAll("details")) details.open = true;
    const wide = [...document.querySelectorAll(".panel, .turn, .card, .stages, .evidence, dl, .filters, .chips")]
        .filter(each => each.scrollWidth > each.clientWidth + 1).map(each => each.className || each.tagName);
    const images = [...document.images].map(image => image.naturalWidth > 0 && image.getBoundingClientRect().width > 0);
    return {page: document.documentElement.scrollWidth, wide, images: images.length, drawn: images.every(Boolean),
        loaded: performance.getEntriesByType("resource").filter(each => !each.name.startsWith("data:")).length,
        curves: document.querySelectorAll("polyline").length,
        beside: getComputedStyle(document.querySelector(".session")).gridTemplateColumns.split(" ").length};
"""


@pytest.mark.parametrize(("width", "columns"), [(PHONE, 1), (DESK, 2)])
def test_nothing_is_wider_than_the_screen_and_nothing_is_fetched(
    page: str, tmp_path: Path, width: int, columns: int
) -> None:
    result = in_browser(page, tmp_path, _WIDTHS, width)
    assert result == {
        "page": width, "wide": [], "images": 18, "drawn": True, "loaded": 0, "curves": 3, "beside": columns,
    }  # fmt: skip


def test_text_can_be_read_in_light_and_in_dark(page: str, tmp_path: Path) -> None:
    """A contrast of 4.5 to 1 at least (WCAG 2.2, success criterion 1.4.3), before and after the key t."""
    result = in_browser(page, tmp_path, """
        const light = colour => { const [r, g, b] = colour.match(/[\\d.]+/g).slice(0, 3).map(part => part / 255)
            .map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
        const ground = node => { for (; node; node = node.parentElement) { const found = getComputedStyle(node).backgroundColor;
            if (!/, 0\\)$|transparent/.test(found)) return found; } return "rgb(255, 255, 255)"; };
        const texts = [...document.querySelectorAll("h1, .chip, .groups td, dt, dd, .top b, .keys, .legend, summary, .evidence small")];
        const contrast = node => { const [a, b] = [light(getComputedStyle(node).color), light(ground(node))].sort((a, b) => b - a);
            return (a + 0.05) / (b + 0.05); };
        const least = () => Math.min(...texts.map(contrast));
        document.documentElement.style.colorScheme = "light";
        const steps = [light(ground(document.body)), least()];
        key("t"); steps.push(light(ground(document.body)), least());
        return steps;
    """)  # fmt: skip
    assert result[0] > 0.8 and result[2] < 0.05
    assert result[1] >= 4.5 and result[3] >= 4.5


def test_a_filtered_page_is_found_again_by_its_address(page: str, tmp_path: Path) -> None:
    linked = page.replace("<head>", "<head><script>location.hash = '#verdict=miss&text=question';</script>")
    assert in_browser(linked, tmp_path, "return [shown(), count()];") == [["Question 4?"], "1 of 6 turns"]
