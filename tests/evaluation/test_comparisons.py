"""Ablations and comparisons: what is run, what is reused, and the figures of the tables."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from agents.models import reply_cache
from agents.models.base import ModelError
from agents.models.reply_cache import ReplyStore
from agents.profiles.profile import PRESETS
from agents.settings.run_config import RunConfig
from evaluation.files import manifest
from evaluation.files.outputs import read_turn_table, write_outputs
from evaluation.records import EvaluationError
from evaluation.scores.scoring import score, truthfulness_change
from evaluation.studies import ablate, compare, variant_runs
from evaluation.studies.figures import Result, compute_figures
from evaluation.studies.paired_tests import compare_runs
from evaluation.studies.result_tables import (
    ResultTable,
    describe_runs,
    format_change,
    format_with_interval,
    make_time_columns,
)
from evaluation.studies.variants import PARTS, Variant, check_labels, leave_out, parse_variant, select_parts
from tests.evaluation.test_progress import states
from tests.evaluation.worlds import ScriptedAgent, ScriptedCragAgent, judged, picture, row, use_agent, write_dataset

DAY = "2026-02-03"


def test_the_turn_table_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    turns = [*judged("cmh", "a"), *judged("h", "b", ego=False)]
    turns[0] = replace(
        turns[0], turn=replace(turns[0].turn, query='He said "NA", twice\nover', interaction_id_history=["x", "y"])
    )
    turns[1] = replace(turns[1], turn=replace(turns[1].turn, agent_response="I don't know", ground_truth="None"))
    write_outputs(tmp_path, turns, {})
    assert read_turn_table(tmp_path) == turns
    assert score(read_turn_table(tmp_path)) == score(turns)
    with pytest.raises(EvaluationError, match="does not exist"):
        read_turn_table(tmp_path / "elsewhere")


def test_a_change_is_measured_session_by_session() -> None:
    before = [turn for number in range(8) for turn in judged("ch" if number % 2 else "hh", f"s{number}")]
    after = [turn for number in range(8) for turn in judged("cm" if number % 2 else "hm", f"s{number}")]
    change, interval = truthfulness_change(before, after)
    assert change == pytest.approx(0.5)  # one of two turns goes from -1 to 0 in every session ...
    assert interval == pytest.approx((0.5, 0.5))  # ... and in every resample, though the sessions differ
    assert compute_figures(after).intervals["truthfulness_score"] != pytest.approx((-0.25, 0.25))
    assert truthfulness_change(before, before) == (0.0, (0.0, 0.0))
    assert truthfulness_change(judged("c", "a"), judged("h", "a")) == (-2.0, None)
    assert truthfulness_change(judged("c", "a"), judged("h", "b")) == (0.0, None)


SETTINGS: dict[str, Any] = {
    "stages": ["understand", "domain", "objects", "ground", "queries", "two_stage_rerank", "verify", "finalise"],
    "queries": {"fuse_entity": True, "split": "none"},
    "two_stage_rerank": {"coarse": True, "fine": False},
}


def test_a_preset_is_ablated_by_the_parts_that_it_has() -> None:
    assert [part.name for part in select_parts(SETTINGS)] == [
        "domain router",
        "cropping",
        "fusion search",
        "coarse reranking",
    ]
    assert leave_out("cropping", "p", SETTINGS) == Variant("p w/o cropping", "p", without=("objects", "ground"))
    assert leave_out("Fusion_Search", "p", SETTINGS).settings == ("queries.fuse_entity=false",)
    assert leave_out("verification", "p", SETTINGS) == Variant(
        "p w/o verification", "p", ("verify",), ("finalise.verified_by=[]",)
    )
    assert leave_out("understand", "p", SETTINGS) == Variant("p w/o understand", "p", without=("understand",))
    changed = Variant("p with queries.split=rules", "p", settings=("queries.split=rules",))
    assert leave_out("queries.split=rules", "p", SETTINGS) == changed
    with pytest.raises(EvaluationError, match="'p' has no query splitting; it has: domain router"):
        leave_out("query splitting", "p", SETTINGS)


def test_the_parts_are_known_to_the_agent() -> None:
    """Stages and settings that the parts name exist: a renamed one would silently drop a row of the table."""
    from agents.settings.presets import settings_from
    from agents.stage import stage_names

    table = {"stages": stage_names()}
    for part in PARTS:
        assert set(part.stages) <= set(stage_names())
        if part.switch is not None:
            variant = part.leave_out("p", settings_from(table).model_dump(mode="json"))
            changed = settings_from(table, overrides=variant.settings)
            assert not part.is_in(changed.model_dump(mode="json"))


def test_variants_are_written_in_one_word() -> None:
    assert parse_variant("no checks=cruise, -consistency,-cov,rerank.k=2") == Variant(
        "no checks", "cruise", ("consistency", "cov"), ("rerank.k=2",)
    )
    listed = parse_variant('two=cruise,stages=["answer", "finalise"],rerank.k=2')
    assert listed.settings == ('stages=["answer", "finalise"]', "rerank.k=2")
    for wrong in ("cruise", "=cruise", "x=", "x=cruise,cov"):
        with pytest.raises(EvaluationError, match="is no variant"):
            parse_variant(wrong)
    with pytest.raises(EvaluationError, match="share a folder"):
        check_labels([Variant("a b", "p"), Variant("A-B", "q")])


def test_tables_are_written_in_markdown() -> None:
    table = ResultTable("t", ("Method", "Accuracy"), [("a|b", "1"), ("c", "2")], short=("Method", "acc."))
    assert table.markdown().splitlines() == [
        "### t", "", "| Method | Accuracy |", "|---|---:|", "| a\\|b | 1 |", "| c | 2 |",
    ]  # fmt: skip
    assert format_with_interval(0.5, (0.125, 0.875)) == "50.00 [12.5, 87.5]"
    assert format_with_interval(0.05, None, signed=True) == "+5.00"


class Runs:
    """A data set of both kinds and an agent that answers worse without its reranker; remembers what was built."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.built: list[tuple[tuple[str, ...], tuple[str, ...]]] = []
        self.agents: list[ScriptedAgent] = []
        self.make: Callable[[Callable[[str, object], str]], Any] = ScriptedAgent
        self.broken: tuple[str, ...] | None = None  # what is left out where the models of a run cannot be loaded
        write_dataset(folder, [row(name, 3, "v0.1.2", picture(), None) for name in "ab"], "v0.1.2")
        single = [row(name, 1, "v0.1.2", picture(), None) for name in "xyz"]
        write_dataset(folder, single, "v0.1.2", repository="crag-mm-single-turn-public")
        use_agent(monkeypatch, self.build)
        monkeypatch.setattr(RunConfig, "read", self.reading(RunConfig.read))

    def reading(self, read: Callable[..., RunConfig]) -> Callable[..., RunConfig]:
        """``RunConfig.read``, with what it was last asked for in ``last_read``."""

        def reader(preset: str, profile: str, *, without: Any = (), overrides: Any = (), **options: Any) -> RunConfig:
            self.last_read = (tuple(without), tuple(overrides))
            return read(preset, profile, without=without, overrides=overrides, **options)

        return reader

    def build(self, config: RunConfig, *_: Any, **__: Any) -> ScriptedAgent:
        self.built.append(self.last_read)
        preset, without = config.preset, self.last_read[0]
        if without == self.broken:
            raise ModelError("there are no weights")

        def answer(query: str, history: object) -> str:
            if query == "What is number 0?" and "two_stage_rerank" not in without:
                return "number 0"
            return "I don't know" if preset == "direct_rag" else "number 7"

        self.agents.append(self.make(answer))
        return self.agents[-1]

    def arguments(self, *more: str) -> list[str]:
        return [*f"--dataset {self.folder} --cache {self.folder}/cache --out {self.folder}/out".split(), *more]


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    return Runs(tmp_path, monkeypatch)


def test_an_ablation_runs_the_whole_and_each_part_and_tabulates_both_tasks(
    runs: Runs, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = runs.arguments("--preset", "best", "--without", "reranking", "--without", "queries.fuse_entity=false")
    arguments += ["--set", "limits.batch_size=2"]
    assert ablate.main(arguments) == 0
    every = "limits.batch_size=2"
    assert runs.built == [((), (every,)), (("two_stage_rerank",), (every,)), ((), (every, "queries.fuse_entity=false"))]
    table = pd.read_csv(runs.folder / "out" / "ablation.csv").set_index(["task", "label"])
    assert table.loc[("single-turn", "best"), "accuracy"] == 1.0
    assert table.loc[("single-turn", "best w/o reranking"), "truthfulness"] == -1.0
    assert table.loc[("multi-turn", "best"), "accuracy"] == pytest.approx(1 / 3)
    assert table.loc[("multi-turn", "best"), "seconds"] >= 0
    text = (runs.folder / "out" / "ablation.md").read_text()
    assert "### single-turn, 3 turns" in text
    assert (
        "| best w/o reranking | 0.00 | 50.00 | 0.00 | 100.00 | -100.00 [-100.0, 12.3] | -200.00 [-200.0, -200.0] |"
        in text
    )
    assert (runs.folder / "out" / "ablation.png").stat().st_size > 1000
    assert "best w/o reranking" in capsys.readouterr().out
    assert "single-turn" in (runs.folder / "out" / "log.txt").read_text()


def test_finished_runs_are_reused_and_a_cut_one_is_gone_on_with(runs: Runs) -> None:
    arguments = runs.arguments("--preset", "best", "--without", "reranking")
    assert ablate.main(arguments) == 0
    first = (runs.folder / "out" / "ablation.csv").read_bytes()
    cut = runs.folder / "out" / "best_w_o_reranking" / "multi-turn" / "response.jsonl"
    lines = cut.read_text().splitlines(keepends=True)
    cut.write_text("".join(lines[:2]))
    runs.agents.clear()
    assert ablate.main(arguments) == 0
    assert [len(agent.calls) for agent in runs.agents] == [0, 2]  # only the two batches that were cut off
    second = pd.read_csv(runs.folder / "out" / "ablation.csv").drop(columns="seconds")
    pd.testing.assert_frame_equal(second, pd.read_csv(pd.io.common.BytesIO(first)).drop(columns="seconds"))
    assert ablate.main([*arguments, "--restart"]) == 0
    assert [len(agent.calls) for agent in runs.agents[2:]] == [4, 4]


def test_tables_say_what_they_were_made_with_and_hold_both_photo_groups(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(manifest, "current_commit", lambda: "abc1234")
    monkeypatch.setattr(manifest, "today", lambda: DAY)
    runs.make = ScriptedCragAgent
    arguments = runs.arguments("--presets", "best", "--tasks", "single-turn")
    assert compare.main(arguments) == 0
    text = (runs.folder / "out" / "comparison.md").read_text()
    assert (
        f"date {DAY}; commit abc1234; profile embedded; dataset crag-mm-single-turn-public@v0.1.2/validation; judge rule"
        in text
    )
    assert "; rules ours; chat model scripted\n" in text
    assert "- no reply cache used" in text and "with reply cache" not in text
    assert "another photo" not in text
    ids = pd.read_csv(runs.folder / "out" / "best" / "single-turn" / "turn_evaluation_results_all.csv")[
        "interaction_id"
    ]
    facts = {name: {"same_photo": position > 0} for position, name in enumerate(ids)}
    (runs.folder / "content_ids.json").write_text(json.dumps(facts))
    capsys.readouterr()
    assert compare.main(arguments) == 0
    assert "by photo" not in capsys.readouterr().out + (runs.folder / "out" / "comparison.md").read_text()
    assert compare.main([*arguments, "--groups"]) == 0
    assert "by photo" in capsys.readouterr().out
    text = (runs.folder / "out" / "comparison.md").read_text()
    assert "### single-turn, by photo" in text
    rows = [line for line in text.splitlines() if line.startswith("| best, ")]
    assert [(row.split(" | ")[0], row.split(" | ")[-1]) for row in rows] == [
        ("| best, same photo", "2 |"),
        ("| best, another photo", "1 |"),
    ]


def test_seconds_are_those_of_calls_without_the_reply_cache() -> None:
    def result(**costs: Any) -> Result:
        return Result(Variant("v", "v"), "single-turn", replace(compute_figures(judged("cmhc")), **costs), [])

    plain = result(seconds=2.0, timed_turns=4)
    mixed = result(seconds=4.0, timed_turns=3, seconds_cached=3.125, reply_hits=2, reply_misses=6, cut_short=1)
    cached = result(seconds=None, timed_turns=0, seconds_cached=0.5, reply_hits=8, reply_misses=0)
    assert [column.heading for column in make_time_columns([plain])] == ["Turns", "Seconds a turn"]
    assert describe_runs([plain]) == ("no reply cache used",)
    rows = [
        [column.cell(each) for column in make_time_columns([plain, mixed, cached])] for each in (plain, mixed, cached)
    ]
    assert rows == [["4", "2.00", "-"], ["4", "4.00 (3) (1 cut short)", "3.12"], ["4", "-", "0.50"]]
    assert describe_runs([plain, mixed, cached])[0].startswith("reply cache used: 10 of 16 replies came from it")


def test_the_reply_cache_is_handed_to_every_run(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = []
    monkeypatch.setattr(reply_cache, "ReplyStore", lambda folder: folders.append(folder) or ReplyStore(folder))
    assert compare.main(runs.arguments("--presets", "best,direct_rag", "--tasks", "single-turn", "--reply-cache")) == 0
    assert folders == [runs.folder / "cache" / "replies"] * 2


def test_rules_and_judge_are_handed_to_every_run(runs: Runs) -> None:
    options = variant_runs_options(
        "--rules", "starter-kit", "--eval-model", "m", "--organiser", "kit", "--max-cost", "0.5", "--judge-price",
        "0.15,0.6", "--judge-style", "explained", "--out", "out",
    )  # fmt: skip
    run = variant_runs.make_run_options(Variant("best", "best"), ["single-turn"], options)
    assert (run.rules.name, run.eval_model, run.organiser, run.max_cost) == ("starter-kit", "m", Path("kit"), 0.5)
    assert (run.judge_price.read, run.judge_price.written, run.judge_style) == (0.15, 0.6, "explained")
    plain = variant_runs.make_run_options(
        Variant("best", "best"), ["single-turn"], variant_runs_options("--out", "out")
    )
    assert (plain.rules.name, plain.organiser, plain.max_cost, plain.judge_price) == ("ours", None, None, None)


def variant_runs_options(*arguments: str) -> variant_runs.ComparisonOptions:
    return variant_runs.ComparisonOptions.parse(arguments)


def test_a_comparison_by_a_releases_rules_counts_as_the_release_does(runs: Runs) -> None:
    """Dialogs are answered right, wrong, wrong, so that nothing is stopped; without its reranker wrong, wrong, wrong."""
    arguments = runs.arguments(
        "--presets", "best", "--also", "plain=best,-two_stage_rerank", "--tasks", "multi-turn", "--rules", "starter-kit"
    )
    assert compare.main(arguments) == 0
    table = pd.read_csv(runs.folder / "out" / "comparison.csv").set_index("label")
    assert table.loc["best", "truthfulness"] == pytest.approx(-1 / 3)
    assert table.loc["plain", "truthfulness"] == pytest.approx(-2 / 3)  # the third turn counts as missing
    assert "rules starter-kit" in (runs.folder / "out" / "comparison.md").read_text()


def test_a_comparison_ranks_presets_and_says_what_cannot_be_run(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    runs.broken = ("steps",)
    arguments = runs.arguments("--presets", "best,direct_rag", "--tasks", "single-turn", "--also", "broken=best,-steps")
    assert compare.main(arguments) == 1
    printed = capsys.readouterr().out
    assert "broken: there are no weights" in printed.replace("\n", " ")
    table = pd.read_csv(runs.folder / "out" / "comparison.csv")
    assert list(table["label"]) == ["best", "direct_rag"]
    assert set(table["task"]) == {"single-turn"}
    assert {"truthfulness_score_low", "accuracy_high", "seconds"} <= set(table.columns)
    assert "Conversation" not in (runs.folder / "out" / "comparison.md").read_text()
    manifest = json.loads((runs.folder / "out" / "best" / "single-turn" / "run.json").read_text())
    assert manifest["preset"] == "best"


@pytest.mark.parametrize(
    ("command", "stem", "once", "twice"),
    [
        (compare.main, "comparison", ["--presets", "best,direct_rag"], ["--presets", "best,direct_rag", "--also", "best=best"]),
        (
            ablate.main,
            "ablation",
            ["--preset", "best", "--without", "reranking"],
            ["--preset", "best", "--preset", "best", "--without", "reranking", "--without", "reranking"],
        ),
    ],
)  # fmt: skip
def test_a_variant_that_is_named_twice_is_one_row(
    runs: Runs, command: Any, stem: str, once: list[str], twice: list[str]
) -> None:
    """It is no comparison more, by which the p of all the others would be adjusted."""
    tables = []
    for arguments in (once, twice):
        assert command(runs.arguments("--tasks", "single-turn", *arguments)) == 0
        tables.append((runs.folder / "out" / f"{stem}.md").read_text())
    assert tables[0] == tables[1]


@pytest.mark.parametrize(
    ("command", "arguments", "message"),
    [
        (compare.main, ["--presets", "best,unheard"], "there is no preset 'unheard'"),
        (
            compare.main,
            ["--presets", "best", "--tasks", "double"],
            "--tasks takes single-turn and multi-turn, not 'double'",
        ),
        (compare.main, ["--presets", "best", "--also", "x"], "is no variant"),
        (ablate.main, ["--preset", "cruise", "--without", "tool router"], "has no tool router"),
        (
            ablate.main,
            ["--preset", "best", "--without", "rerank.k=3"],
            "best with rerank.k=3: there is no setting 'rerank.k'",
        ),
        (compare.main, ["--presets", "direct_rag,best", "--set", "rerank.k=3"], "best: there is no setting 'rerank.k'"),
        (compare.main, ["--presets", "best", "--also", "x=best,-dreaming"], "x: stage 'dreaming' is not part of"),
    ],
)
def test_slips_are_told_before_anything_is_run(
    runs: Runs, capsys: pytest.CaptureFixture[str], command: Any, arguments: list[str], message: str
) -> None:
    assert command(runs.arguments(*arguments)) == 2
    assert message in " ".join(capsys.readouterr().out.split())
    assert runs.built == []


def test_presets_are_tested_against_the_first_or_the_one_that_is_named(
    runs: Runs, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = runs.arguments("--presets", "best,direct_rag", "--tasks", "single-turn")
    assert compare.main(arguments) == 0
    folder = runs.folder / "out"
    best, other = (read_turn_table(folder / name / "single-turn") for name in ("best", "direct_rag"))
    comparison = compare_runs(best, other)
    assert comparison.p is not None
    text = (folder / "comparison.md").read_text()
    change = format_change(comparison)
    assert (
        "### single-turn, truthfulness against best" in text
        and f"| direct_rag | {change} | {comparison.p:.3f} | 3 |" in text
    )
    table = pd.read_csv(folder / "comparison.csv").set_index("label")
    assert (table.loc["direct_rag", "p"], table.loc["direct_rag", "against"]) == (comparison.p, "best")
    assert {file.suffix for file in folder.glob("comparison.*")} == {".md", ".tex", ".csv", ".png"}
    assert (folder / "comparison.tex").read_text().count(r"\toprule") == 2  # the table and the tests, not the cards
    capsys.readouterr()
    assert compare.main([*arguments, "--against", "direct_rag"]) == 0
    assert "truthfulness against direct_rag" in capsys.readouterr().out
    assert compare.main([*arguments, "--against", "cruise"]) == 2
    assert "--against takes one of best, direct_rag, not 'cruise'" in capsys.readouterr().out


def test_a_preset_by_path_is_called_by_its_files_name(
    runs: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "kept" / "mine.toml"
    own.parent.mkdir()
    own.write_bytes((PRESETS / "direct_rag.toml").read_bytes())
    shared = ["--tasks", "single-turn", "--eval-model", "rule", "--no-progress"]
    assert compare.main(runs.arguments("--presets", f"best,{own}", "--against", str(own), *shared)) == 0
    assert ablate.main(runs.arguments("--preset", str(own), "--without", "rerank", *shared)) == 0
    output = capsys.readouterr().out
    assert "single-turn, truthfulness against mine" in output and "mine w/o rerank" in output
    out = runs.folder / "out"
    for name in (f"{study}.{suffix}" for study in ("comparison", "ablation") for suffix in ("md", "tex", "csv")):
        text = (out / name).read_text()
        assert "mine" in text and "mine.toml" not in text and str(own.parent) not in text, name
    assert pd.read_csv(out / "ablation.csv")["change"].notna().sum() == 1, "the base is found by its name"
    assert (out / "mine").is_dir()


def test_a_study_shows_how_far_each_run_is(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = runs.arguments("--presets", "best,direct_rag", "--tasks", "single-turn")
    assert compare.main(arguments) == 0
    updates = states(capsys.readouterr().err)
    assert (updates[0], updates[-1][0]) == (("[1/2] best, answers", 0, 3), "[2/2] direct_rag, judging")
    assert compare.main([*arguments, "--restart", "--no-progress"]) == 0
    assert capsys.readouterr().err == ""
