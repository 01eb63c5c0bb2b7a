"""The rules of each release, written down a second time as the organiser words them, against ours on random results."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from evaluation.files.outputs import ALL_TURNS, EGO_TURNS, SCORES, build_turn_table, read_turn_table, write_outputs
from evaluation.judge.judging import judge_turns
from evaluation.records import AnsweredTurn, JudgeItem, Verdict
from evaluation.report.console_tables import print_scores
from evaluation.rules import OURS, RESEARCH_RELEASE, RULES, STARTER_KIT, Rules
from evaluation.run.command import main
from evaluation.scores.scoring import score, scores_dictionary, select_ego, stop_early

TABLES = 400
releases = pytest.mark.parametrize("rules", [STARTER_KIT, RESEARCH_RELEASE], ids=lambda rules: rules.name)

Rows = list[dict[str, Any]]
TRUTHS = ["A tower.", "330 m", "I don't know", "I do not know"]
ANSWERS = [
    "I don't know", "i DON'T know that.", "I don’t know", "I do not know", "I don't \nknow", "i dont know", " a TOWER.\n", "330 m",
    "right: a tower", "right: I know", "wrong", "", "a, \"b\"\n'c'", "{'accuracy': True}",
]  # fmt: skip


def lines(seed: int) -> Rows:
    """response.jsonl of a run: 1 to 12 sessions of 1 to 6 turns, in any order; in every fourth run none is egocentric."""
    chance = random.Random(seed)
    rows = []
    for number in range(chance.randint(1, 12)):
        session, ego, count = (
            f"{chance.choice('abcXYZ0_')}{number}",
            seed % 4 > 0 and chance.random() < 0.4,
            chance.randint(1, 6),
        )
        rows += [
            {
                "session_id": session,
                "interaction_id": f"{session}-{turn}",
                "turn_idx": turn,
                "is_ego": ego,
                "image_quality": chance.choice([None, "blurred"]),
                "query_category": "multi-hop",
                "domain": "food",
                "dynamism": "static",
                "query": f"{turn}?",
                "ground_truth": chance.choice(TRUTHS),
                "agent_response": chance.choice(ANSWERS),
                "total_turn_count": count,
                "interaction_id_history": [f"{session}-{earlier}" for earlier in range(turn)],
            }
            for turn in range(count)
        ]
    chance.shuffle(rows)
    return rows


class Says:
    """Judge that goes by the first word."""

    name, parallel = "says", False

    def judge(self, item: JudgeItem) -> Verdict:
        return Verdict(item.response.startswith("right"), f"It says {item.response}.")


LETTERS_AND_DIGITS = "abcdefghijklmnopqrstuvwxyz0123456789"


def official_rows(answers: Rows, rules: Rules, judged: bool = True) -> Rows:
    """Build the turn table of a release; without a judge exact answers alone are correct."""
    rows = []
    for line in sorted(answers, key=lambda line: (line["session_id"], line["turn_idx"])):
        response = line["agent_response"]
        low = response.lower()
        plain = "".join(c for c in low if c in LETTERS_AND_DIGITS or c.isspace())
        miss = "i dont know" in plain or "i do not know" in plain
        if rules is STARTER_KIT:
            miss = "i don't know" in low
        exact = low.strip() == line["ground_truth"].lower().strip()
        reply = None
        if judged and not miss and not exact:
            reply = {"accuracy": response.startswith("right")}
            if rules is RESEARCH_RELEASE:
                reply["eval_result"] = f"It says {response}."
        correct = exact or (reply is not None and reply["accuracy"])
        verdicts = {"is_exact_match": exact, "is_correct": correct, "is_miss": miss, "is_semantically_correct": correct}
        rows.append({**line, **verdicts, "api_response": reply})
    return rows


def csv(rows: Rows, like: Rows) -> str:
    """The file of some rows of a table, which has its columns where there is no row."""
    return pd.DataFrame(rows, columns=list(like[0])).to_csv(index=False)


def official_scores(rows: Rows, rules: Rules) -> dict[str, float]:
    """Compute the score dictionary of a release."""
    counted, points = [], []
    for session in sorted({row["session_id"] for row in rows}):
        dialog = [
            (row["is_exact_match"], row["is_correct"], row["is_miss"]) for row in rows if row["session_id"] == session
        ]
        wrong = [not correct for _, correct, _ in dialog]
        end = next((turn + 1 for turn in range(1, len(dialog)) if wrong[turn] and wrong[turn - 1]), len(dialog))
        stopped = dialog[:end] + [(False, False, True)] * (len(dialog) - end)
        points.append(
            sum(correct for _, correct, _ in stopped) / len(dialog)
            - sum(not correct and not miss for _, correct, miss in stopped) / len(dialog)
        )
        counted += stopped if rules is STARTER_KIT else dialog
    total = np.float64(len(counted))
    exact, correct, miss = (sum(row[place] for row in counted) for place in range(3))
    with np.errstate(invalid="ignore"):
        return {
            "total": total,
            "correct_exact": exact,
            "correct": correct,
            "miss": miss,
            "hallucination": total - (correct + miss),
            "exact_match": exact / total,
            "accuracy": correct / total,
            "missing": miss / total,
            "hallucination_rate": (total - (correct + miss)) / total,
            "truthfulness_score": (2 * correct + miss) / total - 1 if total > 1 else 0.0,
            "mean_multi_turn_conversation_score": np.mean(points) if points else np.nan,
        }


def select_ego_rows(rows: Rows) -> Rows:
    return [row for row in rows if row["is_ego"]]


@releases
def test_scores_and_tables_equal_the_releases_to_the_last_digit(rules: Rules) -> None:
    without_ego = both = stopped = 0
    for seed in range(TABLES):
        answers = lines(seed)
        rows = official_rows(answers, rules)
        turns = judge_turns([AnsweredTurn(**line) for line in answers], Says(), rules=rules)
        scores = official_scores(rows, rules)
        np.testing.assert_equal(score(turns, rules).to_dict(), scores)
        np.testing.assert_equal(
            score(select_ego(turns), rules).to_dict(), official_scores(select_ego_rows(rows), rules)
        )
        if seed % 10 == 0:  # pandas takes its time
            assert build_turn_table(turns, rules=rules).to_csv(index=False) == csv(rows, rows)
        without_ego += not select_ego_rows(rows)
        both += any(row["is_correct"] and row["is_miss"] for row in rows)
        stopped += scores["miss"] != sum(row["is_miss"] for row in rows)
    # the cases in which rules differ are among the tables
    assert min(without_ego, both) > TABLES // 5
    assert stopped > TABLES // 5 if rules is STARTER_KIT else stopped == 0


@releases
def test_a_replay_leaves_the_releases_tables_and_scores_behind(rules: Rules, tmp_path: Path) -> None:
    """``--eval-model None``: no judge, as the releases have it."""
    for seed in (1, 4):  # with and without egocentric turns
        answers = lines(seed)
        saved, out = tmp_path / f"{seed}.jsonl", tmp_path / f"out{seed}"
        saved.write_text("".join(json.dumps(line) + "\n" for line in answers))
        replay = ["--rules", rules.name, "--mode", "evaluate", "--input-file", str(saved), "--output-dir", str(out)]
        assert main([*replay, "--eval-model", "None", "--no_progress", "--no-report"]) == 0
        rows = official_rows(answers, rules, judged=False)
        assert (out / ALL_TURNS).read_text() == csv(rows, rows)
        assert (out / EGO_TURNS).read_text() == csv(select_ego_rows(rows), rows)
        scores = json.loads((out / SCORES).read_text())
        np.testing.assert_equal(scores["all"], official_scores(rows, rules))
        np.testing.assert_equal(scores["ego"], official_scores(select_ego_rows(rows), rules))
        assert (scores["about"]["rules"], scores["about"]["judge"]) == (rules.name, "none (exact answers alone)")
        assert len(read_turn_table(out)) == len(answers)
        assert all((turn.semantic is None) == (turn.exact or turn.miss) for turn in read_turn_table(out))


class Fails:
    """Judge that gives no usable reply about some answers."""

    name, parallel = "fails", False

    def judge(self, item: JudgeItem) -> Verdict:
        return Verdict(item.response == "right", "?", failed=item.response == "unclear")


@pytest.mark.parametrize("rules", RULES.values(), ids=str)
def test_an_answer_that_was_not_judged_is_never_read_as_a_wrong_one(rules: Rules, tmp_path: Path) -> None:
    turns = judge_turns(_make_answers(("x", "right"), ("x", "unclear"), ("x", "wrong")), Fails(), rules=rules)
    scores = write_outputs(tmp_path, turns, {}, rules=rules)
    assert [turn.verdict for turn in read_turn_table(tmp_path)] == ["correct", "unjudged", "hallucination"]
    assert scores["unjudged"] == {"all": 1, "ego": 1}
    assert (scores["all"]["correct"], scores["all"]["hallucination"]) == (1, 2), "as the organiser counts it"
    assert pd.read_csv(tmp_path / ALL_TURNS)["judge_failed"].tolist() == [False, True, False]
    stream = io.StringIO()
    print_scores(Console(file=stream), scores)
    assert "not judged" in stream.getvalue()
    judged = judge_turns(_make_answers(("x", "right"), ("x", "wrong")), Fails(), rules=rules)
    assert ("judge_failed" in build_turn_table(judged, rules=rules)) is not rules.organiser_tables


def test_a_turn_after_the_early_stop_needs_no_judgement() -> None:
    turns = judge_turns(_make_answers(("x", "wrong"), ("x", "wrong"), ("x", "unclear")), Fails(), rules=STARTER_KIT)
    assert [turn.verdict for turn in stop_early(turns)] == ["hallucination", "hallucination", "miss"]


def _make_answers(*pairs: tuple[str, str]) -> list[AnsweredTurn]:
    return [
        AnsweredTurn("s", f"s-{place}", place, True, None, "", "food", "", "?", truth, answer, len(pairs), [])
        for place, (truth, answer) in enumerate(pairs)
    ]


def _scores(turns: list[AnsweredTurn], rules: Rules) -> dict[str, Any]:
    return scores_dictionary(judge_turns(turns, Says(), rules=rules), rules=rules)


def test_a_right_i_dont_know_by_hand() -> None:
    """Correct and a miss in both releases: two points, one hallucination less than none, and a dialog that is not stopped."""
    turns = _make_answers(("I don't know", "I don't know"), ("x", "x"))
    for rules in (STARTER_KIT, RESEARCH_RELEASE):
        scores = _scores(turns, rules)["all"]
        assert (scores["correct"], scores["miss"], scores["hallucination"]) == (2, 1, -1)
        assert scores["truthfulness_score"] == 1.5
        assert scores["mean_multi_turn_conversation_score"] == 1.0
    ours = _scores(turns, OURS)["all"]
    assert (ours["correct"], ours["miss"], ours["hallucination"], ours["truthfulness_score"]) == (1, 1, 0, 0.5)


@pytest.mark.parametrize(("rules", "points"), [(STARTER_KIT, 1.0), (RESEARCH_RELEASE, 1.0), (OURS, 0.0)])
def test_whether_a_right_i_dont_know_counts_towards_the_early_stop(rules: Rules, points: float) -> None:
    """Of two of them and a right answer: by ours the answer is missing too (docs/rules.md)."""
    turns = _make_answers(("I don't know", "I don't know"), ("I don't know", "I don't know"), ("x", "x"))
    assert _scores(turns, rules)["all"]["mean_multi_turn_conversation_score"] == points


def test_intervals_and_groups_follow_the_totals() -> None:
    """By the starter kit's rules they are of the dialogs after their early stop too, so that the groups add up to all."""
    for seed in range(3):
        turns = judge_turns([AnsweredTurn(**line) for line in lines(seed)], Says(), rules=STARTER_KIT)
        scores = scores_dictionary(turns, rules=STARTER_KIT)
        for name in ("total", "correct", "miss"):
            assert scores["by_domain"]["food"][name] == scores["all"][name]
        if interval := scores["intervals_95"]["all"].get("truthfulness_score"):
            assert interval[0] <= scores["all"]["truthfulness_score"] <= interval[1]


def test_no_turns_have_no_rates() -> None:
    """Ours 0, the releases not a number; the truthfulness is 0 in all three."""
    for rules in RULES.values():
        scores = scores_dictionary([], rules=rules)["ego"]
        assert (
            np.isnan(scores["accuracy"])
            == np.isnan(scores["mean_multi_turn_conversation_score"])
            == (rules is not OURS)
        )
        assert scores["truthfulness_score"] == 0.0
