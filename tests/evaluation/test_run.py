"""From the command line to the files, with a scripted agent in place of the models."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import local_evaluation
from agents.crag_agent import CragAgent
from agents.models.base import ChatMessage, ChatRequest
from agents.models.reply_cache import CachedReplies, ReplyStore
from agents.record import TurnRecord
from agents.runner.start_up import StartUp, Step
from agents.search.collection import Collection
from agents.search.hub import publish
from agents.settings.run_config import RunConfig
from evaluation.commands import make_console, run_to_exit_status
from evaluation.data.dataset_images import cache_name
from evaluation.files import manifest
from evaluation.files.outputs import ALL_TURNS, EGO_TURNS, SCORES, read_turn_table
from evaluation.files.responses import read_responses
from evaluation.records import EvaluationError
from evaluation.run.launching import launch_agent, prepare
from evaluation.run.options import parse, parse_conversations
from evaluation.studies.judged_entries import read_entries
from evaluation.studies.leaderboard import LeaderboardOptions
from tests.agent.scripted import ScriptedChat
from tests.evaluation.worlds import (
    ScriptedAgent,
    ScriptedCragAgent,
    picture,
    row,
    use_agent,
    write_dataset,
    write_records,
)

ORGANISER = [
    "session_id", "interaction_id", "turn_idx", "is_ego", "image_quality", "query_category", "domain", "dynamism", "query",
    "ground_truth", "agent_response", "total_turn_count", "interaction_id_history", "is_exact_match", "is_correct", "is_miss",
    "is_semantically_correct", "api_response",
]  # fmt: skip
BARE = ("session_id", "interaction_id", "query", "ground_truth", "agent_response")
SCORE_NAMES = {
    "total", "correct_exact", "correct", "miss", "hallucination", "exact_match", "accuracy", "missing", "hallucination_rate",
    "truthfulness_score", "mean_multi_turn_conversation_score",
}  # fmt: skip
STAND_IN = "(stand-in for meta-llama/Llama-3.2-1B-Instruct)"


def _script(query: str, history: object) -> str:
    return {"What is number 0?": "number 0.", "What is number 1?": "It is number 1"}.get(query, "I don't know")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data set in ``tmp_path`` and a scripted agent in place of CragAgent."""
    rows = [
        row("a", 3, "v0.1.2", picture(), None),
        row("b", 2, "v0.1.2", picture(), ""),
        row("c", 2, "v0.1.2", None, "http://x.example/c.png"),
    ]
    write_dataset(tmp_path, rows, "v0.1.2")
    use_agent(monkeypatch, lambda *_, **__: ScriptedAgent(_script))
    return tmp_path


def _main(world: Path, *arguments: str) -> int:
    places = ["--dataset", str(world), "--cache", str(world / "cache"), "--output-dir", str(world / "out")]
    return local_evaluation.main(["--dataset-type", "multi-turn", *places, "--no_progress", *arguments])


def _scores(world: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((world / "out" / SCORES).read_text())
    return content


def test_a_run_leaves_the_organisers_files_behind(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _main(world, "--display-conversations", "1") == 0
    scores = _scores(world)
    assert set(scores["all"]) == set(scores["ego"]) == SCORE_NAMES
    # three dialogs: number 0 exact, number 1 by the judge, number 2 a miss
    assert (
        scores["all"]["total"],
        scores["all"]["correct_exact"],
        scores["all"]["correct"],
        scores["all"]["miss"],
    ) == (7, 3, 6, 1)
    assert scores["ego"]["total"] == 5
    assert scores["about"]["judge"] == "rule"
    assert scores["about"]["tokenizer"].endswith(STAND_IN)
    table = pd.read_csv(world / "out" / ALL_TURNS)
    assert list(table.columns)[: len(ORGANISER)] == ORGANISER
    assert len(table) == 7
    assert table["is_correct"].sum() == 6
    assert len(pd.read_csv(world / "out" / EGO_TURNS)) == 5
    assert (world / "out" / "response.jsonl").is_file()
    printed = capsys.readouterr().out
    assert "85.7%" in printed
    assert "report.html" in printed
    assert "cut at 75 tokens, <|begin_of_text|> among them, by" in printed
    assert printed.count("this is not the evaluator's tokenizer") == 1
    assert "What is number 2?" in printed
    report = (world / "out" / "report.html").read_text()
    assert "not in the image cache" in report and STAND_IN in report


def test_saved_answers_can_be_judged_again_without_an_agent(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _main(world, "--mode", "generate") == 0
    assert not (world / "out" / SCORES).exists()
    monkeypatch.delattr(CragAgent, "from_config")
    assert _main(world, "--mode", "evaluate") == 0
    assert _scores(world)["all"]["correct"] == 6
    assert _scores(world)["about"]["preset"] == "best"
    saved = world / "out" / "response.jsonl"
    other = f"--mode evaluate --input-file {saved} --output-dir {world}/again --no_progress --no-report"
    assert local_evaluation.main(other.split()) == 0  # without the data set
    assert json.loads((world / "again" / SCORES).read_text())["all"] == _scores(world)["all"]
    assert not (world / "again" / "report.html").exists()


def test_a_replay_does_not_replace_the_tables_of_another_run(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _main(world) == 0
    files = {path: path.read_bytes() for path in (world / "out").iterdir()}
    other = world / "other" / "response.jsonl"
    other.parent.mkdir()
    other.write_bytes((world / "out" / "response.jsonl").read_bytes())
    capsys.readouterr()
    assert _main(world, "--mode", "evaluate", "--input-file", str(other)) == 2
    error = " ".join(capsys.readouterr().out.split())
    assert "out has another run" in error and "name another --output-dir" in error
    assert {path: path.read_bytes() for path in (world / "out").iterdir()} == files
    own = world / "out" / ".." / "out" / "response.jsonl"
    assert _main(world, "--mode", "evaluate", "--input-file", str(own)) == 0, "its own may be judged again"
    assert _main(world, "--mode", "evaluate", "--input-file", str(other), "--output-dir", str(other.parent)) == 0


WITHOUT = "2 of 7 turns (1 photo) were asked without their picture; such as: session c: image http://x.example/c.png is not in"


def test_turns_without_their_picture_are_counted_whatever_the_mode(
    world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _main(world, "--mode", "generate") == 0
    assert capsys.readouterr().out.count(WITHOUT) == 1
    assert _main(world, "--mode", "evaluate") == 0
    output = capsys.readouterr().out
    assert output.count(WITHOUT) == 1
    row_of_table = next(line for line in output.splitlines() if "without picture" in line)
    assert [cell for cell in row_of_table.replace("│", " ").split() if cell.isdigit()] == ["2", "0"]  # all, ego
    noted = {"turns": 2, "of": 7, "ego_turns": 0, "photos": 1}
    for about in (_scores(world)["about"], manifest.read_manifest(world / "out")):
        assert about["without_picture"].items() >= noted.items()
    saved = world / "out" / "response.jsonl"
    with_pictures = [line for line in saved.read_text().splitlines() if json.loads(line)["session_id"] != "c"]
    saved.write_text("\n".join(with_pictures) + "\n")
    assert _main(world, "--mode", "evaluate") == 0  # of what is judged, not of all that was asked once
    assert "without their picture" not in capsys.readouterr().out
    assert "without_picture" not in _scores(world)["about"]
    report = (world / "out" / "report.html").read_text()
    assert ">no picture<" not in report and "without its picture" not in report.split("<article")[0]


class SeeingAgent(ScriptedAgent):
    """Agent that cannot answer without the picture."""

    def batch_generate_response(
        self, queries: Any, images: Any, message_histories: Any = None, **kwargs: Any
    ) -> list[str]:
        if None in images:
            raise ValueError("no picture")
        return super().batch_generate_response(queries, images, message_histories, **kwargs)


def test_a_picture_that_is_there_when_the_run_is_resumed_is_not_missing(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CragAgent, "from_config", lambda *_, **__: SeeingAgent(_script))
    assert _main(world, "--fail-on-error", "100%") == 0
    assert manifest.read_manifest(world / "out")["without_picture"]["turns"] == 2
    (world / "image_cache").mkdir()
    picture().save(world / "image_cache" / cache_name("http://x.example/c.png"), "png")
    assert _main(world, "--resume") == 0
    assert not manifest.read_manifest(world / "out")["without_picture"]
    assert "without_picture" not in _scores(world)["about"]


def test_records_of_another_run_are_not_taken_for_those_of_the_answers(
    world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file of another name beside a run, such as the answers of the run before, may be anybody's."""
    assert _main(world) == 0
    earlier, again = world / "out" / "response.previous.jsonl", world / "again"
    earlier.write_bytes((world / "out" / "response.jsonl").read_bytes())
    capsys.readouterr()
    assert _main(world, "--mode", "evaluate", "--input-file", str(earlier), "--output-dir", str(again)) == 0
    about = json.loads((again / SCORES).read_text())["about"]
    assert about == {"judge": "rule", "accepted_answers": 0, "rules": "ours"}
    printed = capsys.readouterr().out
    assert "s per turn on average" not in printed and "without their picture" not in printed
    assert "embedded" not in (again / "report.html").read_text().split("<article")[0]


def test_errors_inside_the_agent_are_not_passed_over(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _main(world, "--mode", "generate") == 0
    first = read_responses(world / "out" / "response.jsonl")[0]
    failed = TurnRecord(
        first.query, error="answer: no weights [file]", session_id=first.session_id, interaction_id=first.interaction_id
    )
    write_records(world / "out" / "trace.jsonl", [failed])
    assert _main(world, "--mode", "evaluate") == 0
    assert (
        "1 turns met an error inside the agent and went on, such as: answer: no weights [file]"
        in capsys.readouterr().out
    )
    assert "answer: no weights [file]" in (world / "out" / "report.html").read_text()


@pytest.mark.parametrize(
    ("text", "single", "multi"), [("8,4", 8, 4), ("3", 3, 3), ("-1", None, None), ("-1,2", None, 2), ("5,-1", 5, None)]
)
def test_sessions_are_counted_for_each_data_set(text: str, single: int | None, multi: int | None) -> None:
    conversations = parse([f"--num-conversations={text}"]).num_conversations
    assert (conversations.limit("single-turn"), conversations.limit("multi-turn")) == (single, multi)
    assert parse_conversations(str(conversations)) == conversations  # as commands that compare runs hand it on


@pytest.mark.parametrize("text", ["0", "-2", "", "a", "1,0", "1,2,3", "2.5", "1,"])
def test_other_numbers_of_sessions_are_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse([f"--num-conversations={text}"])
    assert "write N, or N,M" in capsys.readouterr().err


def test_replies_are_kept_below_the_cache_unless_a_folder_is_named(tmp_path: Path) -> None:
    assert parse([]).reply_folder is None
    assert parse(["--cache", str(tmp_path), "--reply-cache"]).reply_folder == tmp_path / "replies"
    assert parse(["--reply-cache", str(tmp_path / "mine")]).reply_folder == tmp_path / "mine"


class Chatting(ScriptedAgent):
    """Agent that asks a chat model behind the reply cache one question a turn."""

    def __init__(self, replies: ReplyStore | None) -> None:
        super().__init__(_script, batch_size=2)
        self.chat = (
            CachedReplies(ScriptedChat(lambda request: request.messages[0].content), replies) if replies else None
        )

    def batch_generate_response(
        self, queries: Any, images: Any, message_histories: Any = None, **kwargs: Any
    ) -> list[str]:
        if self.chat is not None:
            self.chat.chat([ChatRequest((ChatMessage("user", query),)) for query in queries])
        return super().batch_generate_response(queries, images, message_histories, **kwargs)


def test_what_came_from_the_reply_cache_is_told(
    world: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Queries are "What is number N?" with one N a turn of a dialog; 3 + 2 + 2 turns in calls of two at most."""
    monkeypatch.setattr(CragAgent, "from_config", lambda *_, replies, **__: Chatting(replies))
    assert _main(world, "--no-report") == 0
    assert "reply cache" not in capsys.readouterr().out
    assert _scores(world)["about"]["latency"]["reply_hits"] is None
    for hits, printed in ((4, "reply cache: 4 of 7 replies came from it"), (7, "no call was made without it")):
        assert _main(world, "--no-report", "--reply-cache", str(world / "kept")) == 0
        times = _scores(world)["about"]["latency"]
        assert (times["reply_hits"], times["reply_misses"]) == (hits, 7 - hits)  # three questions differ
        assert printed in capsys.readouterr().out
        lines = [json.loads(line) for line in (world / "out" / "run_log.jsonl").read_text().splitlines()]
        assert times["uncached_turns"] == sum(line["reply_hits"] == 0 for line in lines)
    assert times["uncached_mean_turn"] is None


def test_a_reply_cache_that_cannot_be_opened_is_told(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (world / "kept").write_text("a file")
    assert _main(world, "--reply-cache", str(world / "kept")) == 2
    assert "cannot be opened" in capsys.readouterr().out


def test_the_manifest_notes_commit_and_models_whatever_a_resumed_run_finds(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifest, "current_commit", lambda: "aaaaaaa")
    monkeypatch.setattr(CragAgent, "from_config", lambda *_, **__: ScriptedCragAgent(_script))
    assert _main(world, "--no-report") == 0
    answers = world / "out" / "response.jsonl"
    monkeypatch.setattr(manifest, "current_commit", lambda: "bbbbbbb-dirty")
    assert _main(world, "--no-report", "--resume") == 0  # nothing is left to ask
    assert _scores(world)["about"]["commit"] == "aaaaaaa"
    answers.write_bytes(answers.read_bytes()[:700])
    assert _main(world, "--no-report", "--resume") == 0
    about = _scores(world)["about"]
    assert (about["commit"], about["models"]) == ("aaaaaaa, bbbbbbb-dirty", {"chat": "scripted"})


def _facts(world: Path, facts: Any) -> None:
    (world / "content_ids.json").write_text(json.dumps(facts))


def test_groups_of_turns_are_scored_apart_where_the_data_set_knows_them(
    world: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evaluation.report.console_tables._SMALL_RUN", 0)
    assert _main(world, "--no-report") == 0
    assert "by_photo" not in _scores(world) and "another photo" not in capsys.readouterr().out
    table = pd.read_csv(world / "out" / ALL_TURNS)
    facts = {
        "a": {"same_photo": True, "answerable": True, "source": "kg", "hops": 1},
        "b": {"same_photo": False, "answerable": None, "source": "kg", "hops": 2, "identity": False},
        "c": {"source": "kg", "hops": 1, "identity": True},
    }
    _facts(world, {row["interaction_id"]: facts.get(row["session_id"], {"scene": "x"}) for _, row in table.iterrows()})
    assert _main(world, "--no-report") == 0
    scores = _scores(world)
    # dialog a: right, right, missing; dialog b: right, right; of c only the answer is known
    assert {name: group["total"] for name, group in scores["by_photo"].items()} == {"same photo": 3, "another photo": 2}
    assert scores["by_photo"]["same photo"]["truthfulness_score"] == pytest.approx(2 / 3)
    assert scores["by_photo"]["another photo"]["truthfulness_score"] == 1.0
    assert list(scores["by_answerable"]) == ["answerable"]
    by_answer = {name: group["total"] for name, group in scores["by_attribute"].items()}
    assert list(by_answer.items()) == [("its name", 2), ("one attribute", 3), ("anything else", 2)]
    assert scores["intervals_95"]["by_photo"] == {"same photo": {}, "another photo": {}}  # one dialog each
    printed = capsys.readouterr().out
    assert "By photo" in printed and "another photo" in printed and "its name" in printed and "one attribute" in printed
    turns = read_turn_table(world / "out")
    assert [turn.facts.same_photo for turn in turns if turn.turn.session_id == "b"] == [False, False]
    assert {turn.turn.session_id: turn.facts.one_attribute for turn in turns} == {"a": True, "b": False, "c": True}
    assert {turn.turn.session_id: turn.facts.identity for turn in turns} == {"a": None, "b": False, "c": True}


def test_answers_to_another_question_or_truth_get_neither_accept_forms_nor_facts(world: Path) -> None:
    """In a replay and in a leaderboard. The first has other words, the second another truth than the data set."""
    assert _main(world, "--mode", "generate") == 0
    lines = [json.loads(line) for line in (world / "out" / "response.jsonl").read_text().splitlines()]
    lines = [line | {"agent_response": "a zebra"} for line in lines]
    changed = [lines[0] | {"query": "Which animal?"}, lines[1] | {"ground_truth": "A lion."}, *lines[2:]]
    (world / "accept.json").write_text(json.dumps({line["interaction_id"]: ["zebra"] for line in lines}))
    _facts(world, {line["interaction_id"]: {"same_photo": True} for line in lines})
    saved, again = world / "saved.jsonl", world / "again"
    saved.write_text("".join(json.dumps(line) + "\n" for line in changed))
    replay = ("--mode", "evaluate", "--input-file", str(saved), "--output-dir", str(again), "--eval-model", "rule")
    assert _main(world, *replay, "--no-report") == 0
    options = ["--dataset", str(world), "--cache", str(world / "cache"), "--eval-model", "rule", "--no-progress"]
    (entry,) = read_entries([str(saved)], LeaderboardOptions.parse([str(saved), *options]), make_console()).entries
    for turns in (read_turn_table(again), entry.turns):
        verdicts = {turn.turn.interaction_id: (turn.correct, turn.facts.same_photo) for turn in turns}
        others = {line["interaction_id"]: (True, True) for line in changed[2:]}
        assert verdicts == {line["interaction_id"]: (False, None) for line in changed[:2]} | others


@pytest.mark.parametrize(
    ("rules", "order"),
    [
        ("ours", ["a-0 b-0", "a-1 b-1", "a-2 c-0", "c-1"]),
        ("starter-kit", ["a-0 b-0", "b-1 a-1", "a-2 c-0", "c-1"]),
        ("research-release", ["a-0 b-0", "b-1 a-1", "a-2 c-0", "c-1"]),
    ],
)
def test_a_run_follows_the_rules_of_a_release(
    world: Path, monkeypatch: pytest.MonkeyPatch, rules: str, order: list[str]
) -> None:
    """Dialogs of 3, 2 and 2 turns; the image of the first has the address None, of the second "", of the third one."""
    monkeypatch.setattr(CragAgent, "from_config", lambda *_, **__: ScriptedAgent(_script, batch_size=2))
    assert _main(world, "--rules", rules, "--eval-model", "None") == 0
    lines = [json.loads(line) for line in (world / "out" / "response.jsonl").read_text().splitlines()]
    assert " ".join(line["interaction_id"] for line in lines) == " ".join(order)
    ego = {line["session_id"]: line["is_ego"] for line in lines}
    assert ego == {"a": True, "b": rules == "ours", "c": False}
    scores, table = _scores(world), pd.read_csv(world / "out" / ALL_TURNS)
    if rules == "ours":
        assert (scores["all"]["correct"], scores["about"]["judge"]) == (6, "rule")
    else:
        assert list(table.columns) == ORGANISER
        assert list(table["interaction_id"]) == ["a-0", "a-1", "a-2", "b-0", "b-1", "c-0", "c-1"]
        # "number 0." is exact, "It is number 1" nobody judges, and two failures stop dialog a at its end only
        assert (scores["all"]["correct"], scores["all"]["miss"], scores["ego"]["total"]) == (3, 1, 3)
    assert json.loads((world / "out" / "run.json").read_text())["rules"] == rules
    assert _main(world, "--resume") == (
        0 if rules == "ours" else 2
    )  # answers are gone on with by their own rules alone


def test_a_run_by_the_rules_of_a_release_ends_where_the_releases_end(world: Path) -> None:
    """More than one dialog has been begun with the first batch of four, so that it is the last."""
    assert _main(world, "--rules", "starter-kit", "--num-conversations", "1", "--eval-model", "None") == 0
    assert _scores(world)["all"]["total"] == 3
    answers = (world / "out" / "response.jsonl").read_bytes()
    assert _main(world, "--rules", "starter-kit", "--num-conversations", "1", "--eval-model", "None", "--resume") == 0
    assert (world / "out" / "response.jsonl").read_bytes() == answers


def test_labels_of_saved_answers_are_named_by_the_data_set(world: Path) -> None:
    """The organiser's code saves the numbers of ClassLabels."""
    assert _main(world, "--mode", "generate") == 0
    path = world / "out" / "response.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    names = {line["interaction_id"]: (line["domain"], line["dynamism"], line["image_quality"]) for line in lines}
    numbered = [line | {"domain": 9, "query_category": 0, "dynamism": 1, "image_quality": None} for line in lines]
    path.write_text("".join(json.dumps(line) + "\n" for line in numbered))
    assert _main(world, "--mode", "evaluate", "--no-report") == 0
    table = pd.read_csv(world / "out" / ALL_TURNS, keep_default_na=False)
    assert {
        turn: tuple(row) for turn, *row in table[["interaction_id", "domain", "dynamism", "image_quality"]].to_numpy()
    } == names
    assert set(_scores(world)["by_domain"]) == {"animal", "food", "vehicle"}


@pytest.mark.parametrize("asked_by", ["ours", "starter-kit", "research-release"])
def test_egocentric_is_what_the_rules_of_the_judgement_say(
    world: Path, asked_by: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """By ours the photos of dialogs a and b are, 3 and 2 turns; by a release that of a alone. Without the data set the file says it."""
    assert _main(world, "--rules", asked_by, "--mode", "generate") == 0
    saved, again = str(world / "out" / "response.jsonl"), ("--output-dir", str(world / "again"))
    expected = {"ours": 5, "starter-kit": 3, "research-release": 3}
    for rules, number in expected.items():
        judge = ("--mode", "evaluate", "--rules", rules, "--eval-model", "rule", "--no-report")
        assert _main(world, *judge, "--input-file", saved, *again) == 0
        assert json.loads((world / "again" / SCORES).read_text())["ego"]["total"] == number
        assert "is_ego of the file" not in capsys.readouterr().out
        assert local_evaluation.main([*judge, "--input-file", saved, *again, "--no_progress"]) == 0
        assert json.loads((world / "again" / SCORES).read_text())["ego"]["total"] == expected[asked_by]
        assert ("is_ego of the file" in " ".join(capsys.readouterr().out.split())) is (rules != "ours")


def test_defaults_follow_the_rules() -> None:
    options_by_rules = {name: parse(["--rules", name]) for name in ("ours", "starter-kit", "research-release")}
    assert {name: (options.workers, options.displayed) for name, options in options_by_rules.items()} == {
        "ours": (8, 0),
        "starter-kit": (8, 10),
        "research-release": (1, 10),
    }
    assert parse(["--rules", "starter-kit", "--num-workers", "3", "--display-conversations", "0"]).workers == 3


def test_the_research_releases_flags_are_known(
    world: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RunConfig, "unreachable", lambda *_, **__: None)  # no hub
    assert (
        _main(world, "--profile", "gpu", "--model-name", "meta-llama/other", "--full-query-path", "queries.jsonl") == 0
    )
    assert _scores(world)["about"]["model_name"] == "meta-llama/other"
    assert _main(world, "--model-name", "meta-llama/other") == 2
    assert "has no weights or model to replace" in capsys.readouterr().out.replace("\n", " ")
    config = RunConfig.read("best", "gpu", chat_model="meta-llama/other")
    assert config.profile.models["chat"]["path"] == "meta-llama/other"
    assert RunConfig.read("best", "server", chat_model="gpt-5").profile.models["chat"]["model"] == "gpt-5"


@pytest.fixture
def museum(world: Path) -> Path:
    """A collection with a page, and a file of queries for the web."""
    for line, name in enumerate(("queries", "others")):
        (world / f"{name}.jsonl").write_text(json.dumps({"interaction_id": "a-0", "agent_response": f"{line}"}) + "\n")
    (world / "museum" / "pages").mkdir(parents=True)
    (world / "museum" / "pages" / "tickets.md").write_text("A child ticket costs 6 euros.")
    (world / "museum" / "questions.csv").write_text("photo,question,answer\n,How much is a ticket?,6 euros\n")
    return world / "museum"


CALLED = "--calls research-release"


def _publish_indices(split: str, digit: str) -> None:
    for kind in ("image", "web"):
        work = Path("work")
        work.mkdir()
        publish(Path("cache", "hub"), f"crag-mm-2025/{kind}-search-index-{split}", digit * 40, work)


def test_a_run_is_not_resumed_over_a_collection_that_was_indexed_again(
    museum: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(museum.parent)
    options = parse("--knowledge museum --cache cache".split())
    _publish_indices(Collection(museum).split, "a")
    first = prepare(options)[1]
    assert first["index"] == "web aaaaaaaaaaaa"  # it has no photos
    manifest.write_manifest(museum / "run", first, resume=False)
    manifest.write_manifest(museum / "run", prepare(options)[1], resume=True)
    _publish_indices(Collection(museum).split, "b")
    with pytest.raises(EvaluationError) as raised:
        manifest.write_manifest(museum / "run", prepare(options)[1], resume=True)
    assert "(index: web aaaaaaaaaaaa then, web bbbbbbbbbbbb now)" in str(raised.value)
    assert "ask everything again: without --resume" in str(raised.value)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ("", "image aaaaaaaaaaaa, web aaaaaaaaaaaa"),
        ("--suppress-web-search-api", "image aaaaaaaaaaaa"),
        ("--suppress-web-search-api --suppress-image-search-api", None),
        ("--profile gpu", None),  # the organiser's
    ],
)
def test_the_indices_that_are_searched_are_noted(
    museum: Path, monkeypatch: pytest.MonkeyPatch, flags: str, expected: str | None
) -> None:
    monkeypatch.chdir(museum.parent)
    _publish_indices("validation", "a")
    assert prepare(parse(f"--cache cache {flags}".split()))[1]["index"] == expected


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("--profile gpu --model-name org/big", "--profile gpu"),
        ("--profile gpu --model-name org/big", "--profile gpu --model-name org/small"),
        ("--profile server --reasoning-tokens 500", "--profile server"),
        ("--dataset museum/questions.csv --knowledge museum", "--dataset museum/questions.csv"),
        ("--dataset museum/questions.csv --split public_test", "--dataset museum/questions.csv"),
        (f"--diagnostics original {CALLED} --gold-entity", f"--diagnostics original {CALLED}"),
        (f"{CALLED} --full-query-path queries.jsonl", CALLED),
        (f"{CALLED} --full-query-path queries.jsonl", f"{CALLED} --full-query-path others.jsonl"),
        ("--set answer.k=2", ""),
        ("--suppress-image-search-api", ""),
    ],
)
def test_settings_of_a_run_that_are_taken_away_or_added_are_not_resumed(
    museum: Path, monkeypatch: pytest.MonkeyPatch, one: str, other: str
) -> None:
    monkeypatch.chdir(museum.parent)
    descriptions = [prepare(parse(flags.split()))[1] for flags in (one, other)]
    for number, (first, second) in enumerate((descriptions, reversed(descriptions))):
        folder = museum / str(number)
        manifest.write_manifest(folder, first, resume=False)
        begun = manifest.read_manifest(folder)
        with pytest.raises(EvaluationError, match="were made with other settings"):
            manifest.write_manifest(folder, second, resume=True)
        manifest.add_to_manifest(
            folder, {"models": {"chat": "x"}, "date": "2026-02-03", "without_picture": {"turns": 2}}
        )
        manifest.write_manifest(folder, first, resume=True)
        assert manifest.read_manifest(folder).items() >= begun.items()


def test_a_run_is_resumed_with_its_own_settings_only(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _main(world) == 0
    whole = (world / "out" / "response.jsonl").read_bytes()
    (world / "out" / "response.jsonl").write_bytes(whole[:700])
    assert _main(world, "--resume", "--suppress-web-search-api") == 2
    assert "web_search: True then, False now" in capsys.readouterr().out
    begun = (world / "out" / "run.json").read_bytes()
    assert _main(world, "--resume", "--balanced", "0", "--num-conversations", "2") == 2
    assert "sample: unset then, 2 of 3 sessions" in capsys.readouterr().out.replace("\n", " ")
    assert (world / "out" / "run.json").read_bytes() == begun
    assert _main(world, "--resume") == 0
    assert (world / "out" / "response.jsonl").read_bytes() == whole


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--split", "public_test"], "split public_test is not in"),
        (["--revision", "v9"], "no parquet files"),
        (["--eval-model", "gpt-4o"], "OPENAI_API_KEY"),
        (["--mode", "evaluate", "--input-file", "nowhere.jsonl"], "nowhere.jsonl does not exist"),
        (["--tokenizer", "no/where/at-all"], "no tokenizer at"),
        (["--set", "queries.splt=none"], "there is no setting 'queries.splt'"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(
    world: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert _main(world, *arguments) == 2
    printed = capsys.readouterr().out
    assert message in printed
    assert "Traceback" not in printed


def test_ctrl_c_ends_every_command_with_a_line_and_status_130(capsys: pytest.CaptureFixture[str]) -> None:
    def stop() -> int:
        raise KeyboardInterrupt

    assert run_to_exit_status(stop, make_console()) == 130
    assert run_to_exit_status(stop, make_console(), stopped="the same command goes on") == 130
    assert capsys.readouterr().out == "stopped\nthe same command goes on\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--num-conversations", "0"],
        ["--num-workers", "0"],
        ["--input-file", "x"],
        ["--dataset-type", "every"],
        ["--dataset-type", "both", "--mode", "evaluate", "--input-file", "x"],
    ],
)
def test_bad_combinations_of_flags_are_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        parse(arguments)
    assert stopped.value.code == 2


@pytest.fixture
def both(world: Path) -> Path:
    """A single-turn set beside the multi-turn one."""
    write_dataset(
        world,
        [row(name, 1, "v0.1.2", picture(), None) for name in "xyz"],
        "v0.1.2",
        repository="crag-mm-single-turn-public",
    )
    return world


def test_both_sets_are_asked_by_one_agent_into_one_report(both: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agents: list[ScriptedAgent] = []

    def build(*_: Any, **__: Any) -> ScriptedAgent:
        agents.append(ScriptedAgent(_script))
        return agents[-1]

    monkeypatch.setattr(CragAgent, "from_config", build)
    assert _main(both, "--dataset-type", "both", "--num-conversations", "2") == 0
    assert len(agents) == 1
    single = json.loads((both / "out" / "single-turn" / SCORES).read_text())
    multi = json.loads((both / "out" / "multi-turn" / SCORES).read_text())
    assert (single["all"]["total"], multi["all"]["total"]) == (2, 5)
    assert "single-turn" in single["about"]["dataset"]
    report = (both / "out" / "report.html").read_text()
    assert "crag-mm-single-turn-public@v0.1.2/validation" in report
    assert "crag-mm-multi-turn-public@v0.1.2/validation" in report
    assert not (both / "out" / "single-turn" / "report.html").exists()


def test_both_sets_are_resumed_and_judged_again(
    both: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop_at_dialogs(query: str, history: object) -> str:
        if query == "What is number 1?":
            raise KeyboardInterrupt
        return _script(query, history)

    monkeypatch.setattr(CragAgent, "from_config", lambda *_, **__: ScriptedAgent(stop_at_dialogs))
    assert _main(both, "--dataset-type", "both") == 130
    output = capsys.readouterr().out
    assert "stopped after 3 of 7 turns" in output and "--resume" in output
    again = ScriptedAgent(_script)
    monkeypatch.setattr(CragAgent, "from_config", lambda *_, **__: again)
    assert _main(both, "--dataset-type", "both", "--resume") == 0
    assert again.calls[0] == ["What is number 1?"] * 3  # the single-turn set and the first turns were answered already
    report = (both / "out" / "report.html").read_bytes()
    (both / "out" / "report.html").unlink()
    monkeypatch.delattr(CragAgent, "from_config")
    assert _main(both, "--dataset-type", "both", "--mode", "evaluate") == 0
    assert len((both / "out" / "report.html").read_bytes()) == pytest.approx(len(report), rel=0.1)


def test_models_are_warmed_only_where_something_is_left_to_ask(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warmed: list[object] = []
    monkeypatch.setattr(CragAgent, "from_config", lambda *_, **__: ScriptedCragAgent(_script))

    def warm_up(agent: CragAgent, **_: bool) -> StartUp:
        warmed.append(agent)
        return StartUp((), 0.0)

    monkeypatch.setattr(CragAgent, "warm_up", warm_up)
    assert _main(world) == 0
    assert len(warmed) == 1
    assert _main(world, "--resume") == 0
    assert len(warmed) == 1


def test_an_agent_that_is_warm_asks_its_servers_no_second_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A replica is warmed up before each call, because it may have been restarted."""
    probes: list[bool] = []
    monkeypatch.setattr(RunConfig, "unreachable", lambda *_, servers=False, **__: probes.append(servers))
    monkeypatch.setattr(RunConfig, "pipeline", lambda *_, **__: None)
    monkeypatch.setattr(CragAgent, "from_config", lambda *_, **__: ScriptedCragAgent(_script))
    monkeypatch.setattr(CragAgent, "warm_up", lambda *_, **__: StartUp((), 0.0))
    options = parse(["--cache", str(tmp_path)])
    launched = launch_agent(options, prepare(options)[0])
    launched.warm_up()
    launched.warm_up()
    assert probes.count(True) == 1


def test_a_run_whose_models_are_missing_leaves_the_earlier_run_as_it_was(
    world: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(CragAgent, "from_config", lambda *_, **__: ScriptedCragAgent(_script))
    assert _main(world) == 0
    (world / "out" / "trace.jsonl").write_text("{}\n")
    before = {path: path.read_bytes() for path in (world / "out").iterdir()}
    failed = StartUp((Step("chat", 0.0, "no weights", "chat"),), 0.0)
    with monkeypatch.context() as without:
        without.setattr(CragAgent, "warm_up", lambda *_, **__: failed)
        assert _main(world, "--set", "answer.k=3") == 2
    assert "no weights" in capsys.readouterr().out
    assert {path: path.read_bytes() for path in (world / "out").iterdir()} == before
    assert _main(world, "--set", "answer.k=3") == 0
    earlier = manifest.read_json(world / "out" / "run.previous.json")
    assert earlier == json.loads(before[world / "out" / "run.json"]) != manifest.read_manifest(world / "out")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: lines, None),
        (lambda lines: [{name: line[name] for name in BARE} for line in reversed(lines)], None),
        (lambda lines: lines[:-1], "1 turns of these 3 sessions have no answer here"),
        (lambda lines: lines[:1] + lines[2:], "1 turns of these 3 sessions have no answer here"),
        (
            lambda lines: [{**lines[0], "ground_truth": "Else."}, *lines[1:]],
            "1 of 7 answers have another question or truth",
        ),
        (
            lambda lines: [{**line, "session_id": f"x{line['session_id']}"} for line in lines],
            "7 of 7 answers are to no question of",
        ),
    ],
)
def test_saved_answers_that_do_not_fit_the_data_set_are_told(
    world: Path, capsys: pytest.CaptureFixture[str], change: Callable[[list[Any]], list[Any]], message: str | None
) -> None:
    """Bare ones in any order get their places, labels and kind of picture from it, and the same scores."""
    assert _main(world) == 0
    whole = _scores(world)
    saved = world / "answers.jsonl"
    lines = [json.loads(line) for line in (world / "out" / "response.jsonl").read_text().splitlines()]
    saved.write_text("".join(json.dumps(line) + "\n" for line in change(lines)))
    capsys.readouterr()
    shutil.rmtree(world / "out")
    assert _main(world, "--mode", "evaluate", "--input-file", str(saved)) == 0
    output = " ".join(capsys.readouterr().out.split())
    assert ("answers are to" in output or "have no answer" in output or "another question" in output) is (
        message is not None
    )
    assert message is None or message in output
    if message is None:
        assert (_scores(world)["all"], _scores(world)["ego"]) == (whole["all"], whole["ego"])
