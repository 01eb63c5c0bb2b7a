"""Leaderboards of saved answers: verdicts, ranks, tests, slices and files, by hand-made answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from evaluation.files.outputs import ACCEPTED, write_outputs
from evaluation.files.run_log import RUN_LOG
from evaluation.records import AnsweredTurn, EvaluationError, JudgedTurn, RunLogLine, index_questions
from evaluation.scores.slices import count_groups, mean_points, summarise_group, weighted_total
from evaluation.studies import judged_entries, leaderboard
from evaluation.studies.judged_entries import Entry, Saved, add_labels, distinguish_labels, find_saved, load_labels
from evaluation.studies.leaderboard import BOTH, build_boards
from evaluation.studies.paired_tests import adjust_p_values, compare_runs, pair_turns, permutation_p
from tests.evaluation.worlds import judged, picture, row, run_command, write_dataset

REQUIRED = ("session_id", "interaction_id", "query", "ground_truth", "agent_response")


def save(path: Path, turns: Sequence[AnsweredTurn], fields: Sequence[str] | None = None) -> Path:
    """Write answers; ``fields`` alone where given."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [
        {name: value for name, value in turn.to_dict().items() if fields is None or name in fields} for turn in turns
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def answers(verdicts: Sequence[str], **labels: str) -> list[AnsweredTurn]:
    """A session for each string: c is answered rightly, m not at all, h wrongly."""
    texts = {"c": "truth", "m": "I don't know", "h": "something else"}
    return [
        replace(judged_turn.turn, agent_response=texts[verdict], **labels)
        for number, dialog in enumerate(verdicts)
        for verdict, judged_turn in zip(dialog, judged(dialog, f"s{number}"), strict=True)
    ]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str]]:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    def call(*arguments: str | Path) -> tuple[int, str]:
        return run_command(leaderboard.main, *arguments, "--no-progress", "--cache", tmp_path / "cache", width=160)

    return call


def test_files_of_three_agents_become_a_ranking(tmp_path: Path, run: Callable[..., tuple[int, str]]) -> None:
    pets = {"domain": "pets"}
    ours = save(
        tmp_path / "ours.jsonl",
        [replace(turn, **pets) if turn.session_id == "s0" else turn for turn in answers(["c", "c", "m", "cmh"])],
    )
    kit = save(tmp_path / "kit" / "response.jsonl", answers(["c", "h", "h", "hhc"]), REQUIRED)
    release = save(tmp_path / "release.jsonl", answers(["m", "m", "m", "mmm"], domain="9", query_category="2"))
    out = tmp_path / "out"
    status, output = run(ours, kit, f"theirs={release}", "--out", out)
    assert status == 0 and "by turn number" not in output + (out / "leaderboard.html").read_text()
    status, output = run(ours, kit, f"theirs={release}", "--out", out, "--groups")
    assert status == 0
    board = json.loads((out / "leaderboard.json").read_text())
    single, multi = board["tasks"]["single-turn"], board["tasks"]["multi-turn"]
    assert [(entry["label"], entry["truthfulness"]) for entry in single["entries"]] == [
        ("ours", pytest.approx(2 / 3)),
        ("theirs", 0.0),
        ("kit", pytest.approx(-1 / 3)),
    ]
    # dialog "hhc": its third turn counts as missing after two that are not correct: (0 - 2/3); "cmh": 1/3 - 1/3
    scores = {entry["label"]: entry["scores"]["mean_multi_turn_conversation_score"] for entry in multi["entries"]}
    assert scores == {"ours": pytest.approx(0.0), "theirs": pytest.approx(0.0), "kit": pytest.approx(-2 / 3)}
    assert board["judge"] == "rule"
    # labels that two of the files lack come from the one that has them
    groups = {entry["label"]: entry["slices"]["domain"] for entry in single["entries"]}
    assert {label: {name: group["turns"] for name, group in slices.items()} for label, slices in groups.items()} == {
        label: {"food": 2, "pets": 1} for label in ("ours", "theirs", "kit")
    }
    # Both are wrong: by Wilson's interval at least 2 / (2 + 1.96 ** 2) of all are, and the others may be right.
    upper = pytest.approx(1 - 2 * 2 / (2 + 1.96**2), abs=1e-3)
    assert groups["kit"]["food"] == {"turns": 2, "truthfulness": -1.0, "interval_95": [-1.0, upper]}
    assert groups["kit"]["pets"]["interval_95"] is None  # one session
    assert list(single["entries"][0]["slices"]) == ["domain"]  # the turns are alike in all else
    page = (out / "leaderboard.html").read_text()
    assert "data:image/png;base64," in page and "truthfulness against ours" in page
    assert "truthfulness (%) by turn number" in output and "judged now by rule" in output


def test_the_folder_of_a_replay_is_ranked_by_its_table(tmp_path: Path, run: Callable[..., tuple[int, str]]) -> None:
    """Judging saved answers writes tables and scores into a folder without answers of its own."""
    for name, verdicts in (("mine", "cc"), ("theirs", "ch")):
        turns = [turn for number, verdict in enumerate(verdicts) for turn in judged(verdict, f"s{number}")]
        (tmp_path / name).mkdir()
        write_outputs(tmp_path / name, turns, {"judge": "a judge", "preset": name})
    status, output = run(tmp_path / "mine", tmp_path / "theirs", "--out", tmp_path / "out")
    assert status == 0 and "judged by a judge" in output
    entries = json.loads((tmp_path / "out" / "leaderboard.json").read_text())["tasks"]["single-turn"]["entries"]
    assert [(each["label"], each["truthfulness"]) for each in entries] == [("mine", 1.0), ("theirs", 0.0)]
    assert entries[0]["about"]["preset"] == "mine"


def test_a_table_of_judged_turns_is_taken_as_it_is_unless_answers_or_judges_differ(
    tmp_path: Path, run: Callable[..., tuple[int, str]]
) -> None:
    turns = [turn for number in range(3) for turn in judged("h", f"s{number}")]
    runs = []
    for name in ("one", "two"):
        write_outputs(tmp_path / name, turns, {"judge": "a person"})
        save(tmp_path / name / "response.jsonl", [turn.turn for turn in turns])
        runs.append(tmp_path / name)
    assert "those of the runs' own tables, judged by a person" in run(*runs)[1]
    assert "judged now by rule" in run(*runs, "--eval-model", "None")[1]
    save(runs[1] / "response.jsonl", [replace(turn.turn, agent_response="changed") for turn in turns])
    assert "judged now by rule" in run(*runs)[1]
    write_outputs(runs[1], turns, {"judge": "another person"})
    save(runs[1] / "response.jsonl", [turn.turn for turn in turns])
    assert "judged now by rule" in run(*runs)[1]


def test_tables_of_the_rule_judge_with_and_without_accepted_answers_are_not_compared(
    tmp_path: Path, run: Callable[..., tuple[int, str]]
) -> None:
    turns = judged("h")
    for name in ("one", "two"):
        write_outputs(tmp_path / name, turns, {"judge": "rule", ACCEPTED: len(turns)})
        save(tmp_path / name / "response.jsonl", [turn.turn for turn in turns])
    runs = [tmp_path / "one", tmp_path / "two"]
    assert "those of the runs' own tables, judged by rule" in run(*runs)[1]
    for number in (0, 2):
        write_outputs(runs[1], turns, {"judge": "rule", ACCEPTED: number})
        output = run(*runs)[1]
        assert "judged now by rule" in output and "the rule judge knows no accepted answers" in output


@pytest.fixture
def dialog(tmp_path: Path) -> list[JudgedTurn]:
    """Two answers to a data set, of which the strict rule judge takes the second for wrong: its short form is accepted there."""
    data = write_dataset(tmp_path / "data", [row("s", 2, "v0.1.2", picture(), "")], "v0.1.2")
    (data / "accept.json").write_text(json.dumps({"s-0": ["zero"], "s-1": ["uno"]}))
    (data / "content_ids.json").write_text(json.dumps({"s-0": {"same_photo": True}, "s-1": {"same_photo": False}}))
    texts = [("Number 0.", True), ("uno", False)]
    return [
        replace(
            turn,
            turn=replace(turn.turn, query=f"What is number {n}?", ground_truth=f"Number {n}.", agent_response=answer),
            correct=right,
            exact=right,
        )
        for n, (turn, (answer, right)) in enumerate(zip(judged("hh"), texts, strict=True))
    ]


@pytest.mark.parametrize(("judge", "accepted", "source"), [
    ("rule", 0, "judged now by rule"),
    ("rule", 1, "judged now by rule"),
    ("rule", 2, "those of the runs' own tables"),
    ("a person", 0, "those of the runs' own tables"),
])  # fmt: skip
def test_a_data_set_gives_its_facts_and_its_accepted_answers_to_runs_that_lacked_them(
    tmp_path: Path,
    run: Callable[..., tuple[int, str]],
    dialog: list[JudgedTurn],
    judge: str,
    accepted: int,
    source: str,
) -> None:
    write_outputs(tmp_path / "one", dialog, {"judge": judge, ACCEPTED: accepted})
    save(tmp_path / "one" / "response.jsonl", [turn.turn for turn in dialog])
    status, output = run(tmp_path / "one", "--dataset", tmp_path / "data", "--out", tmp_path / "out")
    assert status == 0 and source in output, output
    board = json.loads((tmp_path / "out" / "leaderboard.json").read_text())
    (entry,) = board["tasks"]["multi-turn"]["entries"]
    assert entry["truthfulness"] == (1.0 if "now" in source else 0.0)
    assert list(entry["slices"]["photo"]) == ["another photo", "same photo"]


def test_answers_to_other_questions_than_the_data_sets_are_told(
    tmp_path: Path, run: Callable[..., tuple[int, str]], dialog: list[JudgedTurn]
) -> None:
    turns = [turn.turn for turn in dialog]
    cases = {
        "1 of 2 answers are to no question of it": [turns[0], replace(turns[1], interaction_id="other")],
        "1 of 2 answers have another question or truth": [turns[0], replace(turns[1], ground_truth="Another.")],
    }
    for message, changed in cases.items():
        status, output = run(save(tmp_path / "a.jsonl", changed), "--dataset", tmp_path / "data")
        assert status == 0 and message in output and output.count(" of 2 answers") == 1, output
    assert " of 2 answers" not in run(save(tmp_path / "a.jsonl", turns), "--dataset", tmp_path / "data")[1]
    other = save(tmp_path / "b.jsonl", [replace(turn, session_id="of another split") for turn in turns])
    status, output = run(tmp_path / "a.jsonl", other, "--dataset", tmp_path / "data")
    assert status == 2 and "b answers no question of crag-mm-multi-turn-public@v0.1.2/validation" in output
    assert "--split" in output


@pytest.mark.parametrize(
    "arguments",
    [("--organiser", "kit"), ("--judge-style", "explained"), ("--max-cost", "1"), ("--judge-price", "0.1,0.2")],
)
def test_options_of_a_judge_that_is_not_named_are_refused(
    arguments: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The verdicts of the run's own table would be taken, whoever made them."""
    with pytest.raises(SystemExit):
        leaderboard.LeaderboardOptions.parse(["run", *arguments])
    assert f"{arguments[0]} needs a judge to ask; name it with --eval-model" in capsys.readouterr().err
    assert leaderboard.LeaderboardOptions.parse(["run", *arguments, "--eval-model", "m"]).eval_model == "m"


def test_the_rules_of_a_release_score_as_it_does(tmp_path: Path, run: Callable[..., tuple[int, str]]) -> None:
    """ "hhc": the third turn is missing to the kit, for two failures stand before it; "I don't know" can be right there."""
    path = save(tmp_path / "a.jsonl", answers(["hhc", "cm"]))
    turns = [replace(turn, ground_truth="I don't know") for turn in answers(["m"])]
    unknown = save(tmp_path / "b.jsonl", turns)

    def truthfulness(file: Path, rules: str) -> float:
        status, output = run(file, "--rules", rules, "--out", tmp_path / "out")
        assert status == 0 and f"rules: {rules}" in output
        (task,) = json.loads((tmp_path / "out" / "leaderboard.json").read_text())["tasks"].values()
        return float(task["entries"][0]["truthfulness"])

    assert truthfulness(path, "ours") == pytest.approx((-1 - 1 + 1 + 1 + 0) / 5)
    assert truthfulness(path, "starter-kit") == pytest.approx((-1 - 1 + 0 + 1 + 0) / 5)
    assert truthfulness(unknown, "ours") == 0.0
    assert truthfulness(unknown, "research-release") == 2.0  # right and missing at once


def test_a_table_by_other_rules_is_not_taken_over(tmp_path: Path, run: Callable[..., tuple[int, str]]) -> None:
    turns = [turn for number in range(3) for turn in judged("h", f"s{number}")]
    write_outputs(tmp_path / "one", turns, {"judge": "a person", "rules": "research-release"})
    path = save(tmp_path / "one" / "response.jsonl", [turn.turn for turn in turns]).parent
    assert "judged now by rule; rules: ours" in run(path, "--eval-model", "rule")[1]
    assert "judged now" in run(path)[1]
    assert "judged by a person; rules: research-release" in run(path, "--rules", "research-release")[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere.jsonl",), "does not exist"),
        (("{empty}",), "contains no answers"),
        (("{file}", "{file}"), "two entries are called a; write LABEL=PATH"),
        (("{file}", "--against", "b"), "--against takes one of a, not 'b'"),
        (("{file}", "--dataset", "{empty}"), "no parquet files"),
    ],
)
def test_slips_are_told(
    tmp_path: Path, run: Callable[..., tuple[int, str]], arguments: Sequence[str], message: str
) -> None:
    (tmp_path / "empty").mkdir()
    places = {"file": save(tmp_path / "a.jsonl", answers(["c"])), "empty": tmp_path / "empty"}
    status, printed = run(*(argument.format(**places) for argument in arguments))
    assert status == 2 and message in printed


def test_an_entry_is_a_file_a_run_or_a_run_over_both_sets(tmp_path: Path) -> None:
    questions = answers(["c"])
    dialogs = [replace(turn, session_id="d", interaction_id="d" + turn.interaction_id) for turn in answers(["cm"])]
    save(tmp_path / "both" / "single-turn" / "response.jsonl", questions)
    save(tmp_path / "both" / "multi-turn" / "response.jsonl", dialogs)
    entry = find_saved(str(tmp_path / "both"))
    assert (entry.label, len(entry.turns), len(entry.files)) == ("both", 3, 2)
    assert find_saved(str(tmp_path / "both" / "single-turn" / "response.jsonl")).label == "single-turn"
    strange = save(tmp_path / "a=b.jsonl", questions)
    assert find_saved(str(strange)).label == "a=b"
    assert find_saved(f"x={strange}").label == "x"


def test_a_run_over_both_sets_beside_another_run_is_not_passed_over(
    tmp_path: Path, run: Callable[..., tuple[int, str]]
) -> None:
    """As two commands with the same --output-dir leave them. Which of them is meant has to be said."""
    place = tmp_path / "results"
    files = [save(place / name / "response.jsonl", answers(["c"])) for name in ("", "single-turn", "multi-turn")]
    save(place / "mine" / "response.jsonl", answers(["c"]))
    status, output = run(place)
    assert status == 2 and "results has two runs; name one of" in output
    assert all(str(file) in output.replace("\n", "") for file in files) and "mine" not in output
    for file in files:
        assert find_saved(str(file)).files == (file,)
    for file in files[1:]:
        file.unlink()
    assert find_saved(str(place)).files == (files[0],), "a run of another name below it is not of it"


@pytest.mark.parametrize("names", [("run_a", "run_b"), ("1", "2", "open"), ("single-turn", "multi-turn")])
def test_a_folder_of_several_runs_is_no_entry(
    tmp_path: Path, run: Callable[..., tuple[int, str]], names: Sequence[str]
) -> None:
    """Each turn would count once for each run; of the last one turn alone is another run's."""
    for number, name in enumerate(names):
        own = [replace(turn, session_id=f"{name} {turn.session_id}") for turn in answers(["c"])]
        save(tmp_path / "all" / name / "response.jsonl", [*own, *answers(["cm"])[: number + 1]])
    status, output = run(tmp_path / "all")
    first, second = sorted(names)[:2]
    assert status == 2 and f"all/{first}" in output and f"all/{second}" in output and "both have turn" in output
    status, output = run(*(tmp_path / "all" / name for name in names))
    assert status == 0, output


def test_folders_of_one_name_are_called_by_the_folders_above(tmp_path: Path) -> None:
    for place in ("one/single-turn", "two/single-turn", "two/x/deep/single-turn", "other"):
        save(tmp_path / place / "response.jsonl", answers(["c"]))

    def labels(*specs: str) -> list[str]:
        return [saved.label for saved in distinguish_labels([find_saved(spec) for spec in specs])]

    one, two = f"{tmp_path}/one/single-turn", f"{tmp_path}/two/single-turn"
    assert labels(one, two) == ["one/single-turn", "two/single-turn"]
    assert labels(f"{one}/response.jsonl", f"{tmp_path}/other", two) == ["one/single-turn", "other", "two/single-turn"]
    assert labels(one, f"{tmp_path}/two/x/deep/single-turn") == ["one/single-turn", "deep/single-turn"]
    assert labels(one, f"single-turn={two}") == ["one/single-turn", "single-turn"]
    assert len({*labels(one, one)}) == 1, "which is refused"


def test_labels_that_a_file_has_are_kept_and_egocentric_is_not_guessed() -> None:
    complete = answers(["c"], domain="pets", dynamism="static")
    bare = [replace(complete[0], domain="", query_category="", dynamism="", image_quality=None, is_ego=False)]
    partly = [replace(complete[0], domain="9", dynamism="real-time", is_ego=False)]
    filled = add_labels(
        [Saved(name, (), tuple(turns)) for name, turns in (("b", bare), ("p", partly), ("k", complete))]
    )
    first, second = filled[0].turns[0], filled[1].turns[0]
    assert (first.domain, first.dynamism, first.is_ego) == ("pets", "static", True)
    assert (second.domain, second.dynamism, second.is_ego) == ("pets", "real-time", False)


@pytest.mark.parametrize(("rules", "egocentric"), [("ours", {True}), ("starter-kit", {False})])
def test_egocentric_is_what_the_rules_say_of_the_data_set(
    tmp_path: Path, run: Callable[..., tuple[int, str]], rules: str, egocentric: set[bool]
) -> None:
    """A photo whose address is an empty text is egocentric by our rules alone, whatever the file says."""
    write_dataset(tmp_path, [row("b", 2, "v0.1.2", picture(), "")], "v0.1.2")
    command = ["a.jsonl", "--rules", rules, "--cache", str(tmp_path / "cache"), "--dataset", str(tmp_path)]
    sets = load_labels(leaderboard.LeaderboardOptions.parse(command))
    questions = index_questions(session for each in sets for session in each.sessions).values()
    saved = Saved("a", (), tuple(replace(turn, is_ego=not turn.is_ego) for turn in questions))
    assert {turn.is_ego for turn in add_labels([saved], sets)[0].turns} == egocentric
    path = save(tmp_path / "a.jsonl", answers(["cm"]))
    assert ("is_ego of the file" in run(path, "--rules", rules)[1]) is (rules != "ours")


def test_the_base_is_the_best_or_the_one_that_is_named() -> None:
    entries = [
        Entry(name, tuple(turn for number in range(4) for turn in judged(verdict, f"s{number}")))
        for name, verdict in (("best", "h"), ("b", "c"))
    ]
    assert build_boards(entries)[0].base == "b"  # also where an entry is called "best"
    named = build_boards(entries, "best")[0]
    assert [(place.label, place.result.against and place.result.against.change) for place in named.places] == [
        ("b", 2.0),
        ("best", None),
    ]
    with pytest.raises(EvaluationError, match="--against"):
        build_boards(entries, "c")


def test_both_pools_questions_and_dialogs_and_resamples_sessions(
    tmp_path: Path, run: Callable[..., tuple[int, str]]
) -> None:
    """By hand: ours has 3 + 1 - 1 of 7 turns, theirs 1 - 1 + 0; sessions are the units of interval and test."""
    verdicts = {"ours": ["c", "c", "c", "cmhm"], "theirs": ["c", "m", "h", "mmmm"]}
    paths = [save(tmp_path / f"{name}.jsonl", answers(letters)) for name, letters in verdicts.items()]
    assert list(_write_board(tmp_path, run, *paths)["tasks"]) == ["single-turn", "multi-turn"]
    board = _write_board(tmp_path, run, *paths, "--both", "--against", "ours")
    assert list(board["tasks"]) == ["single-turn", "multi-turn", BOTH]
    pooled = board["tasks"][BOTH]
    ours, theirs = pooled["entries"]
    assert (pooled["turns"], ours["truthfulness"], theirs["truthfulness"]) == (7, pytest.approx(3 / 7), 0.0)
    turns = {
        name: [turn for n, letters in enumerate(each) for turn in judged(letters, f"s{n}")]
        for name, each in verdicts.items()
    }
    assert ours["truthfulness_interval_95"] == list(summarise_group(turns["ours"]).interval_95 or ())
    against = compare_runs(turns["ours"], turns["theirs"])
    assert (theirs["against"]["p"], theirs["against"]["turns"]) == (against.p, 7)
    assert theirs["against"]["p"] == pytest.approx(2 / 2**2), "two of four sessions differ"
    text = (tmp_path / "out" / "leaderboard.tex").read_text()
    assert f"% {BOTH}, truthfulness against ours" in text


def test_each_board_says_which_data_set_was_answered(tmp_path: Path, run: Callable[..., tuple[int, str]]) -> None:
    """Of both the board of all turns; what only one of the runs noted, and models, are joined as on a card."""
    for kind, letters, chat, more in (("single", "c", "a", {}), ("multi", "ch", "b", {"cached_pages": 3})):
        folder = tmp_path / "both" / f"{kind}-turn"
        save(folder / "response.jsonl", [replace(turn, session_id=kind) for turn in answers([letters])])
        about = {"preset": "best", "dataset": f"{kind}@1/validation", "models": {"chat": chat, "detector": "d"}, **more}
        (folder / "run.json").write_text(json.dumps(about))
    tasks = _write_board(tmp_path, run, tmp_path / "both", "--both")["tasks"]
    (single,), (multi,), (both,) = ([entry["about"] for entry in board["entries"]] for board in tasks.values())
    assert [single["dataset"], multi["dataset"]] == ["single@1/validation", "multi@1/validation"]
    assert both == {
        "preset": "best",
        "dataset": "multi@1/validation, single@1/validation",
        "models": {"chat": "b, a", "detector": "d"},
        "cached_pages": "3",
    }


def _write_board(tmp_path: Path, run: Callable[..., tuple[int, str]], *arguments: str | Path) -> dict[str, Any]:
    assert run(*arguments, "--out", tmp_path / "out")[0] == 0
    return dict(json.loads((tmp_path / "out" / "leaderboard.json").read_text()))


def test_seconds_come_from_the_run_log_of_the_answers_alone(tmp_path: Path) -> None:
    turns = answers(["c", "c"])
    for name in ("response.jsonl", "other.jsonl"):
        save(tmp_path / name, turns)
    lines = [RunLogLine(*turn.key, 0, n, 2, 1.5, 3.0, None, None) for n, turn in enumerate(turns)]
    (tmp_path / RUN_LOG).write_text("".join(json.dumps(asdict(line)) + "\n" for line in lines))
    verdicts = [JudgedTurn(turn, True, False, True) for turn in turns]
    for name, seconds in (("response.jsonl", 1.5), ("other.jsonl", None)):
        entry = judged_entries._make_entry(find_saved(str(tmp_path / name)), verdicts)
        assert build_boards([entry])[0].places[0].result.figures.seconds == seconds


def test_domains_are_weighted_by_their_sizes_in_the_whole_task() -> None:
    whole = [*judged("ccc", "a", domain="food"), *judged("h", "b", domain="pets")]
    sizes = count_groups(whole, lambda turn: turn.turn.domain or None)
    assert sizes == {"food": 3, "pets": 1}
    assert weighted_total(whole, sizes) == mean_points(whole) == 0.5
    partial = [whole[0], whole[3]]  # one turn of each: the mean would be 0
    assert weighted_total(partial, sizes) == pytest.approx((3 * 1 + 1 * -1) / 4)
    assert weighted_total([whole[0]], sizes) == 1.0
    assert weighted_total(judged("c", domain=""), sizes) is None


def test_p_is_exact_for_few_sessions() -> None:
    before = [turn for n in range(5) for turn in judged("h", f"s{n}")]
    after = [turn for n in range(5) for turn in judged("m", f"s{n}")]
    assert permutation_p(pair_turns(before, after)) == pytest.approx(2 / 2**5)
    assert permutation_p(pair_turns(before, before)) == 1.0
    assert permutation_p(pair_turns(before[:1], after[:1])) is None
    # five turns of one dialog are one observation, not five
    dialog, better = judged("hhhhh", "d"), judged("mmmmm", "d")
    assert permutation_p(pair_turns([*dialog, *before[:1]], [*better, *before[:1]])) == pytest.approx(1.0)


def test_several_comparisons_are_adjusted() -> None:
    assert adjust_p_values([0.01, None, 0.04]) == [
        pytest.approx(0.02),
        None,
        pytest.approx(0.04),
    ]  # 0.01 * 2 / 1, 0.04 * 2 / 2
    assert adjust_p_values([None]) == [None]


def test_answers_that_were_not_judged_are_counted_apart() -> None:
    turns = [replace(turn, judge_failed=n == 0) for n in range(2) for turn in judged("h", f"s{n}")]
    table = leaderboard.build_tables(build_boards([Entry("a", tuple(turns))])[0])[0]
    assert dict(zip(table.short, table.rows[0], strict=True))["unjudged"] == "1"
    assert "count as wrong" in table.notes[0]
