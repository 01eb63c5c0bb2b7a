"""Turns that are errors: their cause in every file, what scores make of them, the exit status, and how they are asked again."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from rich.console import Console

from agents.crag_agent import CragAgent
from agents.models.base import ChatReply, ChatRequest
from agents.profiles.model_set import ModelSet
from agents.profiles.profile import Profile
from agents.settings.presets import settings_from
from agents.settings.run_config import RunConfig
from evaluation.files.outputs import ALL_TURNS, SCORES, read_turn_table
from evaluation.files.responses import RESPONSES, read_responses
from evaluation.files.run_log import RUN_LOG, read_run_log
from evaluation.rules import RULES
from evaluation.run import command
from evaluation.run.options import DEFAULT_ERROR_LIMIT, parse_error_limit
from evaluation.scores.scoring import score
from evaluation.studies import answer_metrics, compare, flips, leaderboard
from tests.agent.scripted import ScriptedChat
from tests.evaluation.test_run import ORGANISER
from tests.evaluation.worlds import ScriptedAgent, judged, picture, row, use_agent, write_dataset

BUSY = ChatReply("", "error", error="The server answers 429: slow down", no_answer=True)
BROKEN = ChatReply("", "error", error="The server answers 500: out of memory")


class World:
    """A data set of three dialogs (3, 2 and 1 turns), and an agent of the real pipeline whose model fails on some questions.

    A question is named by its session's colour and its number: the model sees the photo and reads the question.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.fails: dict[str, ChatReply | Exception] = {}
        self.asked: list[str] = []
        rows = [row(name, turns, "v0.1.2", picture(), None) for name, turns in zip("abc", (3, 2, 1), strict=True)]
        for item in rows:
            for turn in item["turns"]:
                turn["query"] = f"What is {turn['interaction_id']}?"
        write_dataset(folder, rows, "v0.1.2")
        use_agent(monkeypatch, self.build)

    def build(self, *_: Any, **__: Any) -> CragAgent:
        models = ModelSet(Profile(name="scripted", models={}), Path("unused"), ready={"chat": ScriptedChat(self.say)})
        settings = settings_from({"stages": ("answer", "finalise"), "limits": {"batch_size": 2}})
        return CragAgent(settings=settings, models=models)

    def say(self, request: ChatRequest) -> ChatReply:
        text = request.messages[-1].content
        if "What is " not in text:  # the warm-up's
            return ChatReply("warm", "stop")
        turn = text.rsplit("What is ", 1)[1].split("?")[0]
        self.asked.append(turn)
        reply = self.fails.get(turn)
        if isinstance(reply, Exception):
            raise reply
        return reply or ChatReply(f"It is {turn}", "stop")

    def run(self, *more: str, out: str = "out") -> tuple[int, str]:
        """Run the command; return its status and what it printed."""
        self.asked.clear()
        places = ["--dataset", str(self.folder), "--cache", str(self.folder / "cache")]
        console = Console(record=True, width=1000)
        arguments = ["--dataset-type", "multi-turn", "--eval-model", "rule", "--no_progress", *places]
        status = command.main([*arguments, "--output-dir", str(self.folder / out), *more], console)
        return status, console.export_text()

    def lines(self, name: str = RESPONSES, out: str = "out") -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / out / name).read_text().splitlines()]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


def test_an_error_is_in_every_file_and_on_the_terminal(world: World) -> None:
    world.fails = {"a-1": BUSY, "b-0": BROKEN}
    status, output = world.run()
    assert status == command.TOO_MANY_ERRORS == 1
    assert "2 of 6 turns are errors" in output and "The server answers" in output
    assert "more than --fail-on-error 5% allows" in output and "--resume" in output
    causes = {line["interaction_id"]: line.get("error_cause") for line in world.lines()}
    assert causes == {"a-0": None, "a-1": "busy", "a-2": None, "b-0": "model", "b-1": None, "c-0": None}
    assert all("error_cause" not in line for line in world.lines() if line["agent_response"] != "I don't know")
    assert {line["interaction_id"]: line["cause"] for line in world.lines(RUN_LOG)} == causes
    out = world.folder / "out"
    scores = json.loads((out / SCORES).read_text())
    assert scores["errors"] == {"all": 2, "ego": 2, "causes": {"busy": 1, "model": 1}}
    table = pd.read_csv(out / ALL_TURNS).set_index("interaction_id")
    assert table.loc["a-1", "error_cause"] == "busy" and table["error_cause"].isna().sum() == 4
    verdicts = {turn.turn.interaction_id: turn.verdict for turn in read_turn_table(out)}
    assert verdicts["a-1"] == verdicts["b-0"] == "error" and "error" not in (verdicts["a-0"], verdicts["a-2"])
    assert [turn.error_cause for turn in read_responses(out / RESPONSES)].count(None) == 4
    report = (out / "report.html").read_text()
    assert '<option value="error">error</option>' in report
    assert report.count('<article class="turn error"') == 2
    assert "Errors, counted as missing" in report and "The server answers 429: slow down" in report


def test_a_run_without_errors_says_nothing_of_them(world: World) -> None:
    status, output = world.run()
    assert status == 0 and "turns are errors" not in output
    assert all("error_cause" not in line for line in world.lines())
    assert json.loads((world.folder / "out" / SCORES).read_text())["errors"] == {"all": 0, "ego": 0, "causes": {}}
    assert "Errors, counted" not in (world.folder / "out" / "report.html").read_text()


def test_scores_are_those_of_the_text_by_every_rule() -> None:
    """An error counts as the rules count "I don't know": to the last digit the same with the cause and without."""
    turns = [*judged("cmh", "a"), *judged("mmc", "b"), *judged("m", "c")]
    turns = [
        replace(turn, turn=replace(turn.turn, agent_response="I don't know")) if turn.miss else turn for turn in turns
    ]
    failed = [replace(turn, turn=replace(turn.turn, error_cause="model")) if turn.miss else turn for turn in turns]
    assert [turn.verdict for turn in failed].count("error") == 4
    for rules in RULES.values():
        assert score(failed, rules) == score(turns, rules)


@pytest.mark.parametrize("rules", ["starter-kit", "research-release"])
def test_tables_by_the_rules_of_a_release_keep_its_columns(world: World, rules: str) -> None:
    world.fails = {"a-1": BUSY}
    status, output = world.run("--rules", rules, "--fail-on-error", "1")
    assert status == 0 and "1 of 6 turns are errors" in output
    out = world.folder / "out"
    assert list(pd.read_csv(out / ALL_TURNS).columns) == ORGANISER
    assert [turn.turn.interaction_id for turn in read_turn_table(out) if turn.verdict == "error"] == ["a-1"]


@pytest.mark.parametrize(
    ("limit", "errors", "exceeded"),
    [
        ("0.05", 5, False),
        ("5%", 6, True),
        ("0", 1, True),
        ("0", 0, False),
        ("3", 3, False),
        ("3", 4, True),
        ("1.0", 100, False),
    ],
)
def test_the_limit_of_errors_is_a_share_or_a_count(limit: str, errors: int, exceeded: bool) -> None:
    assert parse_error_limit(limit).is_exceeded(errors, 100) is exceeded
    assert parse_error_limit(str(parse_error_limit(limit))) == parse_error_limit(limit)


@pytest.mark.parametrize("wrong", ["-1", "1.5", "many", "", "101%", "nan"])
def test_a_malformed_limit_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="a share of the turns"):
        parse_error_limit(wrong)
    assert str(DEFAULT_ERROR_LIMIT) == "5%"


def test_saved_errors_end_a_replay_with_the_same_status(world: World) -> None:
    world.fails = {"c-0": BROKEN}
    assert world.run("--mode", "generate")[0] == 1
    status, output = world.run("--mode", "evaluate")
    assert status == 1 and "1 of 6 turns are errors" in output
    assert world.run("--mode", "evaluate", "--fail-on-error", "50%")[0] == 0


def test_resume_asks_errors_again_and_what_followed_them_in_their_dialogs(world: World) -> None:
    world.run(out="whole")
    whole = (world.folder / "whole" / RESPONSES).read_bytes()
    world.fails = {"a-1": BUSY, "c-0": ValueError("a stage of its own")}
    assert world.run()[0] == 1
    world.fails = {}
    status, _ = world.run("--resume")
    assert status == 0
    assert sorted(set(world.asked)) == ["a-1", "a-2", "c-0"]
    assert (world.folder / "out" / RESPONSES).read_bytes() == whole
    assert all(line.error_cause is None for line in read_run_log(world.folder / "out").values())
    assert world.run("--resume")[0] == 0 and world.asked == []


def test_an_error_that_stays_is_still_one_after_a_resumed_run(world: World) -> None:
    world.fails = {"b-1": BROKEN}
    assert world.run()[0] == world.run("--resume")[0] == 1
    assert sorted(set(world.asked)) == ["b-1"]
    assert [line["interaction_id"] for line in world.lines() if line.get("error_cause")] == ["b-1"]
    assert len(world.lines()) == 6


class NoText(ScriptedAgent):
    """An agent of somebody else that returns no text for some questions."""

    def __init__(self, holes: Callable[[str], bool], value: object = None) -> None:
        super().__init__(lambda query, _: f"about {query}", batch_size=2)
        self.holes, self.value = holes, value

    def batch_generate_response(self, queries: Sequence[str], *arguments: Any, **kwargs: Any) -> Any:
        answers = super().batch_generate_response(queries, *arguments, **kwargs)
        return [self.value if self.holes(query) else answer for query, answer in zip(queries, answers, strict=True)]


@pytest.mark.parametrize("value", [None, 7, ["a"]])
def test_an_agent_that_returns_no_text_makes_errors(
    world: World, monkeypatch: pytest.MonkeyPatch, value: object
) -> None:
    monkeypatch.setattr(CragAgent, "from_config", lambda *_, **__: NoText(lambda query: "b-0" in query, value))
    status, output = world.run()
    assert status == 1 and "1 of 6 turns are errors" in output and "the agent failed: 1" in output
    assert [line["interaction_id"] for line in world.lines() if line.get("error_cause") == "agent"] == ["b-0"]


def test_a_refusal_is_no_error(world: World) -> None:
    world.fails = {"a-0": ChatReply("I don't know", "stop"), "b-0": ChatReply("", "stop")}
    status, _ = world.run()
    assert status == 0
    causes = {line["interaction_id"]: line["cause"] for line in world.lines(RUN_LOG)}
    assert (causes["a-0"], causes["b-0"]) == ("no_evidence", "refused")
    assert all("error_cause" not in line for line in world.lines())


def test_studies_tell_errors_apart(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.run(out="good")
    world.fails = {"a-1": BUSY, "b-0": BROKEN}
    world.run(out="bad")
    runs, out = [str(world.folder / name) for name in ("good", "bad")], str(world.folder / "study")
    assert leaderboard.main([*runs, "--out", out]) == 0
    board = json.loads((world.folder / "study" / "leaderboard.json").read_text())["tasks"]["multi-turn"]["entries"]
    assert {entry["label"]: entry["errors"] for entry in board} == {"good": 0, "bad": 2}
    for name in ("leaderboard.md", "leaderboard.tex", "leaderboard.html"):
        text = (world.folder / "study" / name).read_text()
        assert "Errors" in text and "errors: turns without an answer because something failed" in text
    assert "errors" in capsys.readouterr().out
    assert flips.main([*runs, "--out", out]) == 0
    result = json.loads((world.folder / "study" / "flips.json").read_text())
    assert sum(row["error"] for row in result["matrix"].values()) == 2
    assert {flip["after"]["verdict"] for flip in result["flips"]} == {"error"}


def test_a_stage_that_failed_on_every_turn_is_said_with_its_preset(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    module = "from agents.stage import Stage\n\n\nclass Own(Stage):\n    def run(self, turns, context):\n        raise KeyError('no key')\n"
    (world.folder / "own_broken_stage.py").write_text(module)

    def build(config: RunConfig, *_: Any, **__: Any) -> CragAgent:
        models = ModelSet(Profile(name="scripted", models={}), Path("unused"), ready={"chat": ScriptedChat(world.say)})
        own = ["own_broken_stage:Own"] if config.preset == "direct_rag" else []
        return CragAgent(settings=settings_from({"stages": (*own, "answer", "finalise")}), models=models)

    out = world.folder / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(world.folder))
        patch.setattr(CragAgent, "from_config", build)
        arguments = ["--dataset", str(world.folder), "--cache", str(world.folder / "cache"), "--out", str(out)]
        options = ["--presets", "best,direct_rag", "--tasks", "multi-turn", "--eval-model", "rule", "--no-progress"]
        assert compare.main([*arguments, *options]) == 0
    output = capsys.readouterr().out
    runs = [str(out / name / "multi-turn") for name in ("best", "direct_rag")]
    assert leaderboard.main([f"best={runs[0]}", f"own={runs[1]}", "--out", str(out)]) == 0
    texts = [
        (out / name).read_text() for name in ("comparison.md", "comparison.tex", "leaderboard.md", "leaderboard.tex")
    ]
    for text in (output, *texts, capsys.readouterr().out):
        notes = list({line for line in text.splitlines() if "a stage failed on every turn" in line})  # of each board
        assert len(notes) == 1, notes
        assert "own_broken_stage" in notes[0] and "KeyError" in notes[0]
        assert "best (!)" not in text and ("direct_rag (!)" in text or "own (!)" in text)
    assert "failed on every turn" in (out / "log.txt").read_text()
    named = [f"best={runs[0]}", f"own={runs[1]}"]
    assert flips.main([*named, "--out", str(out)]) == answer_metrics.main([*named, "--out", str(out)]) == 0
    assert leaderboard.main([*named, "--out", str(out), "--groups", "--against", "own"]) == 0
    output = capsys.readouterr().out
    for text in (output, *((out / f"{name}.html").read_text() for name in ("flips", "answer_metrics", "leaderboard"))):
        assert "own (!) a stage failed on every turn: own_broken_stage" in text
    assert "best \\ own (!)" in output and "truthfulness against own (!)" in output
    for name, label in (("answer_metrics.html", "own"), ("leaderboard.html", "own"), ("comparison.md", "direct_rag")):
        marks = re.findall(rf"(?:<tr>\s*<td[^>]*>|^\| ){label}( \(!\))?", (out / name).read_text(), re.MULTILINE)
        assert marks and all(marks), (name, marks)
    assert json.loads((out / "flips.json").read_text())["failing_stages"]["own"]


def test_a_comparison_keeps_the_figures_of_a_run_with_errors(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.fails = {"a-1": BUSY}
    arguments = f"--dataset {world.folder} --cache {world.folder}/cache --out {world.folder}/out".split()
    options = ["--presets", "best", "--tasks", "multi-turn", "--eval-model", "rule", "--no-progress"]
    assert compare.main([*arguments, *options]) == 1
    assert "best: 1 of 6 turns are errors" in capsys.readouterr().out
    assert pd.read_csv(world.folder / "out" / "comparison.csv").loc[0, "errors"] == 1
    world.fails = {}
    assert compare.main([*arguments, *options]) == 0, "the same command asks errors again"
    assert pd.read_csv(world.folder / "out" / "comparison.csv").loc[0, "errors"] == 0
