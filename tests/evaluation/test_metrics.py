"""A metric is one registered function: it is then in scores, tables, report, LaTeX, CSV and figures."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from rich.console import Console

from agents.base.command_options import Options
from evaluation.records import JudgedTurn
from evaluation.report.console_tables import print_scores
from evaluation.report.html_report import ReportPart, write_report
from evaluation.run.options import RunOptions
from evaluation.scores import metrics
from evaluation.scores.metrics import METRICS, metric
from evaluation.scores.scoring import scores_dictionary
from evaluation.studies import ablate, answer_metrics, compare, plots
from evaluation.studies.figures import Result, compute_figures
from evaluation.studies.leaderboard import LeaderboardOptions
from evaluation.studies.plots import plot_results
from evaluation.studies.result_tables import write_tables
from evaluation.studies.variants import Variant
from tests.evaluation.worlds import judged


@pytest.fixture
def words(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A metric of this test: words an answer."""
    monkeypatch.setattr(metrics, "_REGISTRY", registry := dict(metrics._REGISTRY))
    shown = metrics.METRICS
    monkeypatch.setattr(metrics, "METRICS", registry)
    monkeypatch.setattr(answer_metrics, "METRICS", registry)

    @metric("Words", unit="words", higher_is_better=False)
    def words_an_answer(judged: JudgedTurn, references: Sequence[str]) -> float:
        return len(judged.turn.agent_response.split())

    yield
    assert "words_an_answer" not in shown


def make_turns() -> list[JudgedTurn]:
    """A right answer of four words, and a wrong one of two."""
    return [
        replace(turn, turn=replace(turn.turn, agent_response=answer))
        for turn, answer in zip(judged("ch"), ("the tower of truth", "no idea"), strict=True)
    ]


@pytest.mark.usefixtures("words")
@pytest.mark.parametrize("is_ego", [True, False])
def test_smart_glasses_have_columns_only_with_turns(tmp_path: Path, is_ego: bool) -> None:
    turns = [replace(turn, turn=replace(turn.turn, is_ego=is_ego)) for turn in make_turns()]
    with (tmp_path / "said.txt").open("w") as file:
        print_scores(Console(file=file, width=100), scores_dictionary(turns))
    text = (tmp_path / "said.txt").read_text()
    assert ("smart glasses" in text, text.count("3.0")) == (is_ego, 2 if is_ego else 1)


@pytest.mark.parametrize(("copies", "has_slices"), [(1, False), (20, True)])
def test_a_small_run_is_a_sentence_and_one_table(tmp_path: Path, copies: int, has_slices: bool) -> None:
    turns = [
        replace(turn, turn=replace(turn.turn, interaction_id=f"{turn.turn.interaction_id}-{copy}"))
        for copy in range(copies)
        for turn in make_turns()
    ]
    with (tmp_path / "said.txt").open("w") as file:
        print_scores(Console(file=file, width=100), scores_dictionary(turns), "single-turn")
    text = (tmp_path / "said.txt").read_text()
    assert f'single-turn: {copies} right, {copies} wrong, 0 declined ("I don\'t know") of {2 * copies} turns' in text
    assert ("By " in text) == has_slices


@pytest.mark.usefixtures("words")
def test_one_function_is_found_everywhere(tmp_path: Path) -> None:
    turns = make_turns()
    scores = scores_dictionary(turns)
    assert scores["words_an_answer"] == {"all": 3.0, "ego": 3.0}
    with (tmp_path / "said.txt").open("w") as file:
        print_scores(Console(file=file, width=100), scores)
    assert "words (words)" in (tmp_path / "said.txt").read_text() and "3.0" in (tmp_path / "said.txt").read_text()
    report = write_report(tmp_path / "report.html", [ReportPart("single-turn", turns, {})], {}).read_text()
    assert "<span>Words, lower is better</span><b>3.0 words</b>" in report
    results = [Result(Variant("a", "best"), "single-turn", compute_figures(turns), turns)]
    for module in (compare, ablate):
        tables = module.build_tables("single-turn", results)
        (tmp_path / "t").mkdir(exist_ok=True)
        markdown, latex, numbers = (path.read_text() for path in write_tables(tmp_path / "t" / "x", tables, results))
        for text in (markdown, latex):
            assert "Words (words), lower is better" in text and " 3.00 " in text
        assert "words_an_answer" in numbers.splitlines()[0] and ",3.0" in numbers.splitlines()[1]
    assert b"Words (words)" in plot_results(tmp_path / "plot", results)[0].read_bytes()
    assert answer_metrics.measure(turns[0]).values["words_an_answer"] == 4.0


def test_each_axis_of_the_figures_has_zero(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures: list[Figure] = []
    monkeypatch.setattr(plots, "save", lambda figure, place: figures.append(figure))
    turns = make_turns()
    plot_results(tmp_path / "plot", [Result(Variant("a", "best"), "single-turn", compute_figures(turns), turns)])
    assert [panel.get_xlim()[0] <= 0 <= panel.get_xlim()[1] for panel in figures[0].axes] == [True, True]


def test_names_of_scores_are_not_taken_twice() -> None:
    before = [*METRICS]
    for name in ("overlap", "errors"):

        def compute(judged: JudgedTurn, references: Sequence[str]) -> float:
            return 0.0

        compute.__name__ = name
        with pytest.raises(ValueError, match="give the metric another"):
            metric("Again")(compute)
    assert [*METRICS] == before


@pytest.mark.usefixtures("words")
@pytest.mark.parametrize("options", [RunOptions, LeaderboardOptions])
def test_a_metric_of_ones_own_is_named_on_the_command_line(
    options: type[Options], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "my_metrics.py").write_text(
        "from evaluation.scores.metrics import metric\n"
        "@metric('Letters', unit='letters')\n"
        "def letters(judged, references):\n    return len(judged.turn.agent_response)\n"
        "def plain(judged, references):\n    return 0.0\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_metrics", raising=False)
    answers = ["run.jsonl"] if options is LeaderboardOptions else []
    options.parse([*answers, "--metric", "my_metrics:letters"])
    assert scores_dictionary(make_turns())["letters"]["all"] == 12.5
    for reference, message in (("my_metrics:plain", "is no metric"), ("my_metrics:letter", "has no letter")):
        with pytest.raises(SystemExit):
            options.parse([*answers, "--metric", reference])
        assert message in capsys.readouterr().err
    del sys.modules["my_metrics"]
