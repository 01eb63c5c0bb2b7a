"""Files of studies: tables in LaTeX, figures that do not change from day to day."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from evaluation.studies.figures import Result, compare_with_bases, compute_figures
from evaluation.studies.paired_tests import Paired, compare_runs
from evaluation.studies.plots import plot_results
from evaluation.studies.result_tables import (
    ResultTable,
    build_card_table,
    build_figure_rows,
    build_paired_tables,
    format_p,
    write_tables,
)
from evaluation.studies.variants import Variant
from tests.evaluation.worlds import judged


def results(**verdicts: str) -> list[Result]:
    """Runs over sessions of one turn, one for each letter (c, m, h)."""
    turns_by_label = {
        label: [turn for number, verdict in enumerate(letters) for turn in judged(verdict, f"s{number}")]
        for label, letters in verdicts.items()
    }
    return [
        Result(Variant(label, "p"), "single-turn", compute_figures(turns), turns)
        for label, turns in turns_by_label.items()
    ]


def test_a_table_in_latex() -> None:
    table = ResultTable(
        "100% of\n\nit", ("Preset", "Truth (%) [95%]", "p_0"),
        [("a_b & c", "-3.20 [-12.9, 6.5]", "0.141"), ("[x] $1{y}~^\\#", "+5.00", "-")], notes=("a note",),
    )  # fmt: skip
    assert table.latex().splitlines() == [
        "% 100% of it",
        "% a note",
        r"\begin{tabular}{lrr}",
        r"\toprule",
        r"Preset & Truth (\%) [95\%] & p\_0 \\",
        r"\midrule",
        r"a\_b \& c & $-3.20$ $[-12.9, 6.5]$ & 0.141 \\",
        r"{[}x] \$1\{y\}\textasciitilde \textasciicircum \textbackslash \# & $+5.00$ & - \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_a_table_is_written_in_three_formats(tmp_path: Path) -> None:
    runs = results(a="ch", b="cc")
    table = ResultTable("t", ("Preset", "x"), [("a", "1")])
    files = write_tables(tmp_path / "s", [table, build_card_table({"a": {"date": "d"}, "b": {"commit": "c"}})], runs)
    text, tex, numbers = (file.read_text() for file in files)
    assert [file.name for file in files] == ["s.md", "s.tex", "s.csv"]
    assert "| Run | date | commit |\n|---|---|---|\n| a | d |  |\n| b |  | c |\n" in text
    assert tex.count(r"\begin{tabular}") == 1  # figures alone
    assert len(numbers.splitlines()) == 3


def test_figures_are_the_same_bytes_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    labels = ("b_1 [x]", "50% $x$", "ä")
    runs = [
        replace(each, variant=Variant(label, "p"))
        for each, label in zip(results(a="chc", b="ccm", c="hhc"), labels, strict=True)
    ]
    figures = []
    for name, day in (("one", "0"), ("two", "86400")):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", day)  # what matplotlib takes for today
        figures.append(plot_results(tmp_path / name, runs))
    assert [file.suffix for file in figures[0]] == [".png", ".svg", ".pdf"]
    contents = [[file.read_bytes() for file in files] for files in figures]
    assert contents[0] == contents[1]
    assert [content[:5] for content in contents[0]] == [b"\x89PNG\r", b"<?xml", b"%PDF-"]
    assert b"/Type3" not in contents[0][2]


def test_each_run_is_tested_against_its_base() -> None:
    before = results(a="chhhhhhh", b="ccccmmmm", c="chhhhhhm")
    comparisons = compare_with_bases(before, lambda _: "a")
    plain = [compare_runs(before[0].turns, each.turns) for each in before[1:]]
    assert comparisons[0].against is None and [each.base for each in comparisons] == ["", "a", "a"]
    assert [
        each.against and (each.against.change, each.against.interval, each.against.p) for each in comparisons[1:]
    ] == [(each.change, each.interval, each.p) for each in plain]
    # 7 of 8 sessions differ, all to the better: 2 of 2**8 signs where the eighth is 0 either way, so 2 / 2**7
    assert plain[0].p == pytest.approx(2 / 2**7) and plain[1].p == 1.0
    assert comparisons[1].against is not None and comparisons[1].against.adjusted_p == pytest.approx(2 * 2 / 2**7)
    (table,) = build_paired_tables("Preset", comparisons)
    assert table.title == "single-turn, truthfulness against a"
    assert [row[0] for row in table.rows] == ["b", "c"] and table.rows[0][2:] == ("0.031", "8")
    assert [row["p"] for row in build_figure_rows(comparisons)] == [None, *(each.p for each in plain)]


@pytest.mark.parametrize(("p", "text"), [(0.0002, "<0.001"), (0.0005, "0.001"), (0.0314, "0.031"), (None, "-")])
def test_a_p_that_rounds_to_nothing_is_told_as_a_bound(p: float | None, text: str) -> None:
    assert format_p(Paired(8, None, None, p, p)) == text


def test_a_bound_is_a_formula_in_latex() -> None:
    assert r"b & $<0.001$ \\" in ResultTable("t", ("Preset", "p"), [("b", "<0.001")]).latex()


def test_fewer_turns_in_common_are_said() -> None:
    one, other = results(a="chh", b="cc")
    (table,) = build_paired_tables("Preset", compare_with_bases([one, other], lambda _: "a"))
    assert table.rows[0][0] == "b" and table.rows[0][-1] == "2"
    assert build_paired_tables("Preset", compare_with_bases([one, other], lambda _: "not run")) == []
    elsewhere = [replace(turn, turn=replace(turn.turn, session_id=f"x{turn.turn.session_id}")) for turn in other.turns]
    comparisons = compare_with_bases([one, replace(other, turns=elsewhere)], lambda _: "a")
    (table,) = build_paired_tables("Preset", comparisons)
    assert table.rows == [("b", "-", "-", "0")]  # no change of 0, which nobody measured
    assert build_figure_rows(comparisons)[1]["change"] is None


def test_every_variant_of_an_ablation_has_its_own_base() -> None:
    runs = results(a="ch", b="cc", p="hh", q="hc")
    bases = {"b": "a", "q": "p"}
    comparisons = compare_with_bases(runs, lambda variant: bases.get(variant.label, variant.label))
    assert [each.base for each in comparisons] == ["", "a", "", "p"]
    assert [each.against.change for each in comparisons if each.against] == [1.0, 1.0]
