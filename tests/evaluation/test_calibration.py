"""The gate fitted to decisions that were made up, and the way from a run to a preset."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn
from sklearn.impute import SimpleImputer
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from agents.base.data_folder import ROOT
from agents.decision.signals import SIGNALS
from agents.methods.gate import Gate
from agents.record import Decision as Told
from agents.record import Signal, StageRecord, TurnRecord, read_record
from evaluation.files.outputs import ACCEPTED, ALL_TURNS, SCORES, build_turn_table, read_turn_table, write_outputs
from evaluation.files.responses import RESPONSES, rewrite
from evaluation.judge.rule_judge import RuleJudge
from evaluation.records import EvaluationError, Verdict
from evaluation.scores.scoring import risk_coverage
from evaluation.studies import calibrate, gate_fit, gate_study, plots
from evaluation.studies.calibrate import OPEN, set_values
from evaluation.studies.decisions import (
    Decision,
    FitData,
    JudgedRun,
    Turns,
    find_judged_folders,
    read_decisions,
    read_fit_data,
)
from evaluation.studies.figures import read_figures
from evaluation.studies.gate_fit import (
    SignedRegression,
    apply_gate,
    choose_threshold,
    cross_validate,
    fit,
    measure_truthfulness,
    predict_probability,
    select_usable,
    signal_auroc,
    study_gate,
)
from evaluation.studies.rule_fits import fit_algorithm1_confidences, fit_own_knowledge, fit_white_box_line
from tests.evaluation.worlds import judged, picture, row, write_dataset, write_records


@pytest.fixture(autouse=True, scope="module")
def _unchecked_fits() -> Iterator[None]:
    """Have scikit-learn check no parameters and no finite values: some thousand small fits take most of their time for that."""
    with sklearn.config_context(assume_finite=True, skip_parameter_validation=True):
        yield


NEGATIVE = {kind.name for kind in SIGNALS if kind.negative}


def decision(
    points: float,
    session: str = "s",
    *,
    gate_decides: bool = True,
    direct: bool = False,
    egocentric: bool = False,
    photo: str = "",
    **signals: float,
) -> Decision:
    named_signals = {name: Signal(value, name in NEGATIVE) for name, value in signals.items()}
    return Decision(session, points, gate_decides, named_signals, direct, egocentric, photo)


def _world(sessions: int, *, informative: bool, seed: int = 3) -> Turns:
    """Two turns a session, half of the answers right; P(yes) tells them apart or not, the evidence's score never does."""
    random = np.random.default_rng(seed)
    rows = []
    for number in range(sessions):
        for _ in range(2):
            right = random.random() < 0.5
            p_yes = 0.5 * random.random() + (0.4 if right and informative else 0.0)
            rows.append(
                decision(1.0 if right else -1.0, f"s{number}", p_yes=p_yes, evidence_score=float(random.random()))
            )
    return Turns.from_decisions(rows)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_signal_never_speaks_against_its_meaning(sign: float) -> None:
    """The second column is higher where the answer is wrong; it counts where it is a doubt and is left out where it is not."""
    matrix = np.array([[1.0, -1.0], [0.8, -0.9], [-0.7, 1.0], [-1.0, 0.7], [0.2, 0.9], [-0.1, -1.1]])
    right = np.array([True, True, False, False, False, True])
    fitted = SignedRegression((1.0, sign)).fit(matrix, right)
    assert fitted.coef_[0][0] > 0
    if sign > 0:
        alone = SignedRegression((1.0,)).fit(matrix[:, :1], right)
        assert fitted.coef_[0][1] == 0.0
        assert fitted.predict_proba(matrix)[:, 1] == pytest.approx(alone.predict_proba(matrix[:, :1])[:, 1], abs=1e-4)
    else:
        assert fitted.coef_[0][1] < 0


def test_a_signal_that_separates_is_found_and_noise_is_not_preferred() -> None:
    turns = _world(40, informative=True)
    names = select_usable(turns)
    assert names == ["p_yes", "evidence_score"]
    gate = fit(turns, names, 5, 0)[0]
    weights = dict(zip(gate.features, gate.coefficients[0], strict=True))
    assert weights["p_yes"] > 5 * abs(weights["evidence_score"])
    probability, (at_half, *_) = cross_validate(turns, names, repeats=1)
    assert roc_auc_score(turns.right, probability) > 0.9
    assert measure_truthfulness(turns, at_half).low > measure_truthfulness(turns, turns.score()).high
    assert signal_auroc(turns, "p_yes") == pytest.approx(roc_auc_score(turns.right, turns.signals["p_yes"]), abs=1e-12)


def test_held_out_figures_of_noise_promise_nothing() -> None:
    turns = _world(40, informative=False)
    names = select_usable(turns)
    probability, (_, at_fitted, _) = cross_validate(turns, names, repeats=2)
    assert roc_auc_score(turns.right, probability) < 0.65
    on_the_same = predict_probability(turns, fit(turns, names, 5, 0)[0])
    assert at_fitted.mean() < turns.score(on_the_same >= choose_threshold(on_the_same, turns.points)).mean()


def test_a_missing_signal_counts_as_its_mean() -> None:
    """The gate says what scikit-learn's steps say, of candidates that it was fitted to and of others."""
    turns = _world(20, informative=True)
    gaps = np.where(np.arange(40) % 7 == 0, np.nan, turns.signals["p_yes"])
    turns = replace(turns, signals={**turns.signals, "p_yes": gaps})
    names, part = select_usable(turns), np.arange(30)
    gate = fit(turns, names, 5, 0, part)[0]
    steps = make_pipeline(
        SimpleImputer(), StandardScaler(), SignedRegression((1.0, 1.0), float(gate.fitted_on["strength"]))
    )
    expected = steps.fit(turns.matrix(names)[part], turns.right[part]).predict_proba(turns.matrix(names))[:, 1]
    np.testing.assert_allclose(predict_probability(turns, gate), expected, atol=1e-9)
    signals = [{name: turns.signals[name][place] for name in names} for place in range(40)]
    np.testing.assert_allclose([gate.probability(each) for each in signals], expected, atol=1e-9)


def test_the_threshold_earns_most_and_stays_near_one_half() -> None:
    probability, points = np.array([0.2, 0.4, 0.45, 0.9]), np.array([-1.0, -1.0, 1.0, 1.0])
    assert choose_threshold(probability, points) == pytest.approx(0.425)
    assert (
        choose_threshold(probability, np.array([-1.0, -1.0, -1.0, 1.0])) == 0.5
    )  # anything from 0.45 to 0.9 does as well
    assert choose_threshold(probability, np.full(4, -1.0)) == 1.0


def _photos(sessions: int, *, differ: bool) -> Turns:
    """P(yes) is spread evenly; of photos of glasses nine in ten are right from 0.7 on, of others from 0.3 on where they differ."""
    random = np.random.default_rng(5)
    rows = []
    for number in range(sessions):
        egocentric = number % 2 == 0
        p_yes = float(random.random())
        right = (p_yes >= (0.7 if egocentric or not differ else 0.3)) == (random.random() < 0.9)
        rows.append(decision(1.0 if right else -1.0, f"s{number}", p_yes=p_yes, egocentric=egocentric))
    return Turns.from_decisions(rows)


def gate_of(features: tuple[str, ...], **more: Any) -> Gate:
    zeros = (0.0,) * len(features)
    return Gate(
        **{"features": features, "mean": zeros, "scale": (1.0,) * len(features), "coefficients": (zeros,), "intercept": (0.0,), **more}
    )  # fmt: skip


def test_photos_of_glasses_and_others_get_their_own_thresholds_where_they_differ() -> None:
    turns = _photos(120, differ=True)
    gate = fit(turns, ["p_yes"], 5, 0)[2]
    assert gate.minimum(egocentric=True) > gate.minimum(egocentric=False) + 0.1
    _, (at_half, at_fitted, at_both) = cross_validate(turns, ["p_yes"], repeats=1)
    assert at_both.mean() > max(at_half.mean(), at_fitted.mean()) + 0.05
    is_given, p_yes = apply_gate(turns, gate), turns.signals["p_yes"]
    assert not is_given[turns.egocentric & (p_yes < 0.5)].any()
    assert is_given[~turns.egocentric & (p_yes > 0.5)].all()


def test_a_division_that_tells_nothing_gains_nothing() -> None:
    _, (at_half, at_fitted, at_both) = cross_validate(_photos(120, differ=False), ["p_yes"], repeats=1)
    assert at_both.mean() <= max(at_half.mean(), at_fitted.mean()) + 0.01
    _, (_, at_fitted, at_both) = cross_validate(_world(20, informative=True), ["p_yes"], repeats=1)
    assert (at_both == at_fitted).all(), "nothing to divide"


def test_what_a_rule_forbids_is_never_given() -> None:
    turns = Turns.from_decisions([decision(0, "a", gate_decides=False, p_yes=1.0), decision(1, "b", p_yes=0.5)])
    assert list(turns.score(np.array([True]))) == [0.0, 1.0]
    assert list(turns.score(np.array([False]))) == [0.0, 0.0]


def test_one_session_is_never_on_both_sides() -> None:
    """Each session has a signal of its own that gives its label away; without that session nobody can know it."""
    rows = []
    for number in range(12):
        right = number % 2 == 0
        rows += [decision(1.0 if right else -1.0, f"s{number}", p_yes=(number * 5 % 12) / 12) for _ in range(6)]
    turns = Turns.from_decisions(rows)
    assert roc_auc_score(turns.right, cross_validate(turns, ["p_yes"], repeats=1)[0]) < 0.8


def test_sessions_about_one_photo_are_one_group() -> None:
    """One of two runs need not know the photo; groups that are sessions are numbered as these."""
    sessions = [("c", ""), ("a", "blue"), ("b", ""), ("c", "red"), ("d", "blue"), ("e", "red"), ("b", "")]
    turns = Turns.from_decisions([decision(1, session, photo=photo) for session, photo in sessions])
    assert list(turns.groups) == [2, 0, 1, 2, 0, 2, 1]
    alone = Turns.from_decisions([decision(1, session) for session, _ in sessions])
    assert list(alone.groups) == list(alone.session) == [2, 0, 1, 2, 3, 4, 1]


def test_the_data_set_tells_which_sessions_are_about_one_photo(tmp_path: Path) -> None:
    _write_run(tmp_path / "run")
    rows = [row(f"s{number}", 2, "v0.1.2", picture(f"rgb({number % 9}, 0, 0)"), None) for number in range(12)]
    data = write_dataset(tmp_path / "data", rows, "v0.1.2")
    places = ["--runs", str(tmp_path / "run"), "--cache", str(tmp_path), *FAST]
    for more, count in (([], 12), (["--dataset", str(data)], 9)):
        options = calibrate.CalibrateOptions.parse([*places, *more])
        data = read_fit_data(calibrate.list_judged_runs(options))
        assert len({*data.turns.groups}) == count
        assert data.about["sessions"] == 12


@pytest.mark.parametrize(
    ("sessions", "wrong", "told"),
    [
        (2, 0, "nothing is to be withheld: 2 candidates are right (in 2 dialogs) and 0 wrong (in 0)"),
        (2, 1, "that takes about 10 dialogs, and here are 2"),
        (5, 2, "too few questions for a gate: 3 candidates are right (in 3 dialogs) and 2 wrong (in 2); both have to be in 5 "),
        (10, 2, "that takes about 25 dialogs, and here are 10"),
        (10, 1, "that takes about 50 dialogs, and here are 10"),
    ],
)  # fmt: skip
def test_too_few_dialogs_are_refused(sessions: int, wrong: int, told: str) -> None:
    """The numbers are those of the whole run, not of a part of a nested division, which nobody knows."""
    rows = [decision(-1.0 if number < wrong else 1.0, f"s{number}", p_yes=number / 10) for number in range(sessions)]
    with pytest.raises(EvaluationError, match=re.escape(told)):
        cross_validate(Turns.from_decisions(rows), ["p_yes"])


def test_a_part_without_a_kind_of_candidate_is_told_of_the_whole_run() -> None:
    """Two wrong candidates are in two folds; without either of them all but one are right."""
    rows = [decision(-1.0 if number < 2 else 1.0, f"s{number}", p_yes=number / 10) for number in range(10)]
    with pytest.raises(EvaluationError, match=r"8 candidates are right .in 8 dialogs. and 2 wrong"):
        cross_validate(Turns.from_decisions(rows), ["p_yes"], folds=2, repeats=1)


@pytest.mark.parametrize("value", [0.5, float("nan")])
@pytest.mark.filterwarnings("error")
def test_a_signal_that_is_constant_or_unknown_is_no_signal(value: float) -> None:
    rows = [decision(1.0 - number % 2 * 2, f"s{number}", p_yes=value) for number in range(10)]
    with pytest.raises(EvaluationError, match="no signal differs"):
        study_gate(Turns.from_decisions(rows), folds=5, repeats=1)


@pytest.mark.filterwarnings("error")
def test_a_signal_that_is_constant_in_most_parts_makes_a_gate_of_numbers() -> None:
    rows = [
        decision(1.0 - number % 2 * 2, f"s{number}", p_yes=float(number == 3), evidence_score=(number * 7 % 10) / 10)
        for number in range(20)
    ]
    gate, _, _ = study_gate(Turns.from_decisions(rows), folds=5, repeats=1)
    assert np.isfinite([*gate.coefficients[0], *gate.intercept, *gate.mean, *gate.scale, gate.threshold]).all()


def test_truthfulness_resamples_sessions() -> None:
    turns = Turns.from_decisions([decision(1, "a"), decision(1, "a"), decision(-1, "b"), decision(-1, "b")])
    truthfulness = measure_truthfulness(turns, turns.points)
    assert (truthfulness.mean, truthfulness.low, truthfulness.high) == (0.0, -1.0, 1.0)


def test_risk_and_coverage() -> None:
    """By falling probability: right; a right and a wrong one that are equal; wrong."""
    coverage, risk = risk_coverage(np.array([0.5, 0.9, 0.1, 0.5]), np.array([True, True, False, False]))
    assert list(coverage) == [0.25, 0.75, 1.0]
    assert list(risk) == [0.0, pytest.approx(1 / 3), 0.5]


def test_the_white_box_line_weighs_the_least_against_the_mean() -> None:
    """Right where the least probability is high, whatever the mean; what was answered directly does not count."""
    random = np.random.default_rng(0)
    rows = [
        decision(
            1.0 if right else -1.0,
            f"s{n}",
            min_probability=(0.6 if right else 0.1) + 0.2 * random.random(),
            mean_probability=0.8 + 0.2 * random.random(),
        )
        for n in range(60)
        for right in (n % 2 == 0,)
    ]
    rows.append(decision(-1, "direct", direct=True, min_probability=1.0, mean_probability=1.0))
    line = fit_white_box_line(Turns.from_decisions(rows))
    assert line["verify.weight_min"] > 3 * abs(line["verify.weight_mean"])

    def score(minimum: float) -> float:
        return line["verify.weight_min"] * minimum + line["verify.weight_mean"] * 0.9

    assert score(0.2) < line["verify.white_box_threshold"] < score(0.7)
    with pytest.raises(EvaluationError, match="token probabilities"):
        fit_white_box_line(Turns.from_decisions([decision(1, "a"), decision(-1, "b")]))


def own(points: float, p_yes: float | None) -> Decision:
    signals = {} if p_yes is None else {"p_yes": p_yes}
    return decision(points, "s", **{"cross_check.own": 1.0, **signals})


def test_own_knowledge_is_given_from_the_probability_at_which_it_earns_most() -> None:
    """Above 0.6 all are right, between 0.3 and 0.6 as many as wrong, below all wrong; answers from evidence do not count."""
    rows = [own(1 if p > 0.6 or (p > 0.3 and n % 2) else -1, p) for n, p in enumerate(np.linspace(0.05, 0.95, 46))]
    evidence = [decision(-1, "e", **{"cross_check.own": 0.0, "p_yes": 0.99}) for _ in range(50)]
    fitted = fit_own_knowledge(Turns.from_decisions([*rows, *evidence]))
    assert fitted["cross_check.own_knowledge"] == "checked" and 0.3 < float(fitted["cross_check.own_minimum"]) < 0.65
    wrong = [own(-1, p) for p in np.linspace(0.1, 0.9, 30)]
    assert fit_own_knowledge(Turns.from_decisions(wrong)) == {"cross_check.own_knowledge": "never"}


@pytest.mark.parametrize(("right", "choice"), [(21, "checked"), (20, "never"), (5, "never")])
def test_own_knowledge_of_a_model_without_probabilities_pays_or_not(right: int, choice: str) -> None:
    rows = [own(1 if number < right else -1, None) for number in range(40)]
    assert fit_own_knowledge(Turns.from_decisions(rows)) == {"cross_check.own_knowledge": choice}
    with pytest.raises(EvaluationError, match="20 answers that come from it, and here are 19"):
        fit_own_knowledge(Turns.from_decisions([own(1, None)] * 19))


def _checked(points: float, confidence: float, *, agreement: float = 1.0, no_evidence: float = 0.0) -> Decision:
    return decision(points, agreement=agreement, chain_confidence=confidence, no_evidence=no_evidence)


def test_algorithm1_asks_for_the_confidence_that_earns_most() -> None:
    """From 0.5 on -1 + 2 = 1 point is earned, from 0.7 on 2, at 0.9 again 2 - 1 = 1; without context nothing earns any."""
    grounded = [_checked(-1, 0.5), _checked(1, 0.7), _checked(1, 0.9), _checked(1, 0.9), _checked(-1, 0.9)]
    inconsistent = [_checked(1, 0.2, agreement=0.0)] * 9
    prior = [_checked(-1, 0.9, no_evidence=1.0)]
    confidences = fit_algorithm1_confidences(Turns.from_decisions([*grounded, *inconsistent, *prior]))
    assert confidences == {"finalise.algorithm1.low": 0.7, "finalise.algorithm1.high": 1.0}
    sure = [_checked(1, 0.3, no_evidence=1.0)]
    assert fit_algorithm1_confidences(Turns.from_decisions([*grounded, *sure]))["finalise.algorithm1.high"] == 0.7
    alone = [_checked(points, sure, no_evidence=1.0) for points, sure in ((-1, 0.5), (1, 0.7), (1, 0.9))]  # 1, 2, 1
    assert fit_algorithm1_confidences(Turns.from_decisions(alone)) == {
        "finalise.algorithm1.low": 1.0,
        "finalise.algorithm1.high": 0.7,
    }
    with pytest.raises(EvaluationError, match="chain of verification"):
        fit_algorithm1_confidences(Turns.from_decisions([decision(1, "a")]))


PRESET = """# Ours.
stages = ["understand", "answer", "finalise"]

[finalise]
abstain_real_time = true # by hand
"""


def test_values_go_into_the_table_of_the_models_and_comments_stay(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(PRESET)
    path.write_text(set_values(path, "a/b.c + clip", {"finalise.gate": "presets/gates/a.json"}, "fitted"))
    text = set_values(path, "a/b.c + clip", {"finalise.gate": "presets/gates/b.json", "verify.weight_min": 0.3}, "anew")
    table = tomllib.loads(text)
    assert table["finalise"] == {"abstain_real_time": True}
    assert table["models"]["a/b.c + clip"] == {
        "finalise": {"gate": "presets/gates/b.json"},
        "verify": {"weight_min": 0.3},
    }
    assert '[models."a/b.c + clip".finalise]' in text
    for comment in ("# Ours.", "# by hand", "# anew"):
        assert comment in text


@pytest.mark.parametrize("text", ["[x", "models = 3\n", '[models]\ngpu = "x"\n'])
def test_a_preset_that_cannot_be_written_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "broken.toml").write_text(text)
    with pytest.raises(EvaluationError, match=r"cannot be edited .*; write \[models.*by hand: finalise.gate = 'x'"):
        set_values(tmp_path / "broken.toml", "gpu", {"finalise.gate": "x"}, "")


def _write_run(
    folder: Path, preset: str = "best", split: str = "validation", note: bool = True, **more: Signal
) -> None:
    """Twelve dialogs of two turns: right where P(yes) is high; the second candidate of each was held back, one of those is right."""
    turns, records, costs = [], [], []
    for number in range(12):
        first, second = judged("cm", f"s{number}")
        first = replace(
            first, turn=replace(first.turn, query=f"first {number}?", agent_response="truth", ground_truth="truth")
        )
        abstention = replace(
            second.turn, query=f"second {number}?", agent_response="I don't know", ground_truth="blue whale"
        )
        for position, (judged_turn, candidate, p_yes) in enumerate(
            [
                (first, "truth", 0.8),
                (replace(second, turn=abstention), "a red fox" if number else "the blue whale", 0.3),
            ]
        ):
            turns.append(judged_turn)
            signals = {"p_yes": Signal(p_yes + number / 1000), "evidence_score": Signal(number % 3), **more}
            decision = Told(candidate, judged_turn is first, egocentric=number == 1) if note else None
            final = StageRecord("finalise", signals=signals, decision=decision)
            key = {"session_id": judged_turn.turn.session_id, "interaction_id": judged_turn.turn.interaction_id}
            fields = {"query": judged_turn.turn.query, "answer": judged_turn.turn.agent_response}
            records.append(TurnRecord(**fields, stages=(final,), batch=number, turn=position, **key))
            place = {"batch": number, "turn": position, "batch_size": 2}
            costs.append({**key, **place, "seconds": 1.0, "batch_seconds": 2.0, "error": None, "image_note": None})
    folder.mkdir(parents=True)
    write_outputs(folder, turns, {"judge": "rule"})
    write_records(folder / "trace.jsonl", records)
    (folder / "run_log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in costs))
    dataset = f"crag-mm-multi-turn-public@v0.1.2/{split}"
    (folder / "run.json").write_text(json.dumps({"preset": preset, "profile": "embedded", "dataset": dataset}))


def test_candidates_that_were_held_back_are_judged(tmp_path: Path) -> None:
    _write_run(tmp_path / "run")
    decisions = read_decisions(tmp_path / "run", RuleJudge())
    assert len(decisions) == 24
    assert [each.points for each in decisions[:4]] == [1, 1, 1, -1]
    assert decisions[0].signals == {"p_yes": Signal(0.8), "evidence_score": Signal(0.0)}
    assert [each.egocentric for each in decisions[:6]] == [False, False, True, True, False, False]
    assert find_judged_folders(tmp_path) == [tmp_path / "run"]
    trace = tmp_path / "run" / "trace.jsonl"
    first, second, third, *others = map(read_record, trace.read_text().splitlines())
    late = StageRecord("rerank", 0.0, "skipped", "time", "0.00 s left and 2.00 s kept for later stages, needs 1.00 s")
    short = StageRecord("rerank", 0.5, "reduced", "time", "1.50 s left, would like 2.00 s")
    first, second, third = (
        replace(record, stages=(stage, *record.stages))
        for record, stage in zip(
            (first, second, third), (late, short, replace(late, status="failed", cause="error")), strict=True
        )
    )
    write_records(trace, [first, second, third, *others])
    assert (
        len(read_decisions(tmp_path / "run", RuleJudge())) == 23
    )  # the deadline cut the first turn short, and no other
    assert read_figures(tmp_path / "run")[0].cut_short == 1
    with pytest.raises(EvaluationError, match="contains no judged run"):
        find_judged_folders(tmp_path / "run" / "deeper")
    _write_run(tmp_path / "again")
    with pytest.raises(EvaluationError, match=r"again and .*run both have turn"):
        find_judged_folders(tmp_path)


def test_runs_that_share_a_folder_are_told_apart(tmp_path: Path) -> None:
    _write_run(tmp_path / "run")
    shutil.copytree(tmp_path / "run", tmp_path / "run" / "single-turn")
    tables = [tmp_path / "run" / ALL_TURNS, tmp_path / "run" / "single-turn" / ALL_TURNS]
    with pytest.raises(EvaluationError, match="run has two runs; name one of") as error:
        find_judged_folders(tmp_path / "run")
    assert all(str(table) in str(error.value) for table in tables)
    assert [find_judged_folders(table) for table in tables] == [[table.parent] for table in tables]


def test_candidates_whose_judge_failed_are_no_wrong_ones(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Neither those that were given, in the run's table, nor those that were held back, which are judged now."""
    _write_run(tmp_path / "run")
    table = tmp_path / "run" / "turn_evaluation_results_all.csv"
    turns = read_turn_table(tmp_path / "run")
    answered_turn = next(turn for turn in turns if not turn.miss)
    failed = [replace(turn, judge_failed=turn is answered_turn) for turn in turns]
    table.write_text(build_turn_table(failed).to_csv(index=False))
    assert len(read_decisions(tmp_path / "run", RuleJudge())) == 23

    class Hesitant(RuleJudge):
        asked = 0

        def judge(self, item: Any) -> Any:
            self.asked += 1
            return Verdict(False, "no reply", failed=True) if self.asked % 2 else super().judge(item)

    failed_now = (sum(turn.miss for turn in turns) + 1) // 2
    assert failed_now and len(read_decisions(tmp_path / "run", Hesitant())) == 23 - failed_now
    assert f"{failed_now + 1} turns are left out, because the judge gave no usable reply" in caplog.text


def test_turns_without_a_decision_are_counted_as_the_others_that_are_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One lacks its record, one failed before its last stage, and the deadline cut one short."""
    _write_run(tmp_path / "run")
    trace = tmp_path / "run" / "trace.jsonl"
    _, failed, short, *others = map(read_record, trace.read_text().splitlines())
    late = StageRecord("rerank", 0.0, "skipped", "time", "no time")
    write_records(trace, [replace(failed, stages=()), replace(short, stages=(late, *short.stages)), *others])
    decisions = read_decisions(tmp_path / "run", RuleJudge())
    assert "2 turns are left out, because trace.jsonl has no decision on them" in caplog.text
    assert "1 turns are left out, because the time was up" in caplog.text
    assert len(decisions) == 21
    assert calibrate.main(["--runs", str(tmp_path / "run"), *FAST, "--gate", str(tmp_path / "gate.json")]) == 0
    fitted_on = Gate.load(tmp_path / "gate.json").fitted_on
    assert (fitted_on["turns"], fitted_on["left_out"]) == (21, 3)


def test_a_table_of_other_answers_is_refused(tmp_path: Path) -> None:
    _write_run(tmp_path / "run")
    answers = [judged_turn.turn for judged_turn in read_turn_table(tmp_path / "run")]
    rewrite(tmp_path / "run" / RESPONSES, [turn.to_line() for turn in answers])
    assert len(read_decisions(tmp_path / "run", RuleJudge())) == 24
    rewrite(tmp_path / "run" / RESPONSES, [replace(turn, agent_response="another").to_line() for turn in answers])
    with pytest.raises(
        EvaluationError, match=r"a table of other answers than those of response.jsonl .*judge these again"
    ):
        read_decisions(tmp_path / "run", RuleJudge())


class _Lenient(RuleJudge):
    def judge(self, item: Any) -> Any:
        return replace(super().judge(item), correct=True)


def test_any_answer_is_wrong_if_the_truth_is_an_abstention(tmp_path: Path) -> None:
    _write_run(tmp_path / "run")
    table = tmp_path / "run" / "turn_evaluation_results_all.csv"
    table.write_text(table.read_text().replace("blue whale", "I don't know"))
    decisions = read_decisions(tmp_path / "run", _Lenient())
    assert [each.points for each in decisions[1::2]] == [-1.0] * 12


@pytest.fixture
def presets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the preset ``best`` that may be written to."""
    original = (calibrate.PRESETS / "best.toml").read_text(encoding="utf-8")
    folder = tmp_path / "presets"
    folder.mkdir()
    (folder / "best.toml").write_text(original, encoding="utf-8")
    monkeypatch.setattr(calibrate, "PRESETS", folder)
    monkeypatch.setattr(gate_study, "plot_gate", lambda *_: [])  # which takes longer than the fit
    return folder


MODEL = "qwen2.5-coder-1.5b-instruct-q4_k_m"


def _fit_data(turns: Turns) -> FitData:
    run = JudgedRun(Path("run"), "run", {"profile": "embedded", "dataset": "set@v1/validation"}, RuleJudge())
    counts = {
        "turns": len(turns.points),
        "sessions": 9,
        "candidates": len(turns.right),
        "right": int(turns.right.sum()),
    }
    about = {"split": "validation", "judge": "rule", "without": "", **counts}
    return FitData((run,), turns, (MODEL, "efficientnet-lite2"), about)


FAST = ["--preset", "best", "--folds", "3", "--repeats", "1"]


@pytest.mark.parametrize(
    ("finalise", "fitted_on", "row"),
    [
        ("verified_by = 'witnesses'", None, None),
        ("verified_by = ['model']\nmax_idk = 0.2", None, None),
        ("max_idk = 0.2", None, ("the preset as it is", -1 / 3)),
        ("", None, ("the preset as it is", 1 / 3)),
        ("verified_by = 'witnesses'", "validation", ("the preset as it is (fitted on these turns)", 0.0)),
        ("", "validation, public_test", ("the preset as it is (fitted on these turns)", 0.0)),
        ("", "elsewhere", ("the preset as it is", 0.0)),
    ],
)
def test_the_row_of_the_preset_says_what_it_is(
    tmp_path: Path, presets: Path, finalise: str, fitted_on: str | None, row: tuple[str, float] | None
) -> None:
    """A gate that is sure of nothing withholds all; the cut gives the wrong one of three candidates, and withholds the right ones."""
    signals = [(1, 0.3), (1, 0.4), (-1, 0.1)]
    turns = Turns.from_decisions([decision(points, str(p_idk), p_idk=p_idk) for points, p_idk in signals])
    text = f"stages = ['answer', 'finalise']\n[finalise]\n{finalise}\n"
    if fitted_on is not None:
        gate = Gate(
            features=("p_idk",), mean=(0.0,), scale=(1.0,), coefficients=((0.0,),), intercept=(-9.0,), threshold=0.5,
            fitted_on={"split": fitted_on},
        )  # fmt: skip
        gate.save(tmp_path / "gate.json")
        text += f"gate = {str(tmp_path / 'gate.json')!r}\n"
    (tmp_path / "own.toml").write_text(text)
    policies = gate_study.score_preset(_fit_data(turns), str(tmp_path / "own.toml"))
    assert [(name, pytest.approx(points.mean())) for name, points in policies.items()] == ([] if row is None else [row])


def test_the_help_and_the_handbook_give_every_candidate(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        calibrate.main(["--help"])
    handbook = (ROOT / "docs" / "calibration.md").read_text()
    for text in (capsys.readouterr().out, handbook):
        assert all(setting in text for setting in OPEN)


SERVER = "http://127.0.0.1:9/v1"
SERVED = f"gpt-4o-mini (structured; our words; {SERVER})"


@pytest.mark.parametrize(
    ("noted", "rules", "fault"),
    [
        ("rule", "ours", None),
        ("rule", None, None),
        (SERVED, "ours", f"{SERVED} would get them: if you want that, repeat --eval-model gpt-4o-mini"),
        ("none (exact answers alone)", "starter-kit", None),
        ("none (exact answers alone)", "ours", "its name alone gives 'rule'"),
        (f"gpt-4o-mini (explained; our words; {SERVER})", "ours", f"its name alone gives {SERVED!r}"),
        ("gpt-4o-mini (structured; our words)", "ours", f"its name alone gives {SERVED!r}"),
        ("gpt-4o-mini (structured; the starter kit's words)", "ours", f"its name alone gives {SERVED!r}"),
        ("my own judge", "ours", f"its name alone gives 'my own judge (structured; our words; {SERVER})'"),
        ("local:gone (a model; right from P(yes) 0.5 on)", "ours", "cannot be judged as its others were"),
        ("", "ours", "does not say who judged"),
    ],
)
def test_what_was_held_back_is_judged_as_the_run_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noted: str, rules: str | None, fault: str | None
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", SERVER)
    (tmp_path / SCORES).write_text(json.dumps({"about": {"judge": noted, "rules": rules}}))
    command = ["--runs", str(tmp_path), "--preset", "best", "--cache", str(tmp_path)]
    if fault is None:
        assert calibrate._choose_judge(tmp_path, calibrate.CalibrateOptions.parse(command)).name == noted
    else:
        with pytest.raises(EvaluationError, match=re.escape(fault)) as error:
            calibrate._choose_judge(tmp_path, calibrate.CalibrateOptions.parse(command))
        assert "--eval-model" in str(error.value)
    named = calibrate.CalibrateOptions.parse([*command, "--eval-model", "rule"])
    assert calibrate._choose_judge(tmp_path, named).name == "rule"


def test_what_was_judged_with_accepted_answers_is_not_judged_without_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_outputs(tmp_path, judged("ch"), {"judge": "rule", "rules": "ours", ACCEPTED: 2})
    about = {"preset": "best", "profile": "embedded", "dataset": "crag-mm-single-turn-public@v0.1.2/validation"}
    (tmp_path / "run.json").write_text(json.dumps(about))
    assert calibrate.main(["--runs", str(tmp_path), "--preset", "best", "--cache", str(tmp_path)]) == 2
    assert "was judged with accepted answers" in capsys.readouterr().out


@pytest.mark.parametrize("wrong", [["--repeats", "0"], ["--repeats=-1"], ["--folds", "1"], ["--folds", "0"]])
def test_numbers_that_validate_nothing_are_refused(
    presets: Path, wrong: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        calibrate.main(["--runs", "run", *FAST, *wrong])
    assert end.value.code == 2 and wrong[0].partition("=")[0] in capsys.readouterr().err


@pytest.mark.parametrize(
    ("points", "chosen", "is_written"),
    [
        ((0.5, 0.3, 0.1), 0, True),
        ((0.1, 0.3, 0.1), 1, True),
        ((0.1, 0.1, 0.3), 2, True),
        ((0.1, 0.15, 0.1), 1, False),
        ((0.2, 0.2, 0.2), 0, False),
    ],
)
def test_a_gate_is_written_if_it_is_better_with_the_thresholds_that_it_has(
    presets: Path, monkeypatch: pytest.MonkeyPatch, points: tuple[float, ...], chosen: int, is_written: bool
) -> None:
    """Every candidate earns 0.2; points are those at one half, at the fitted threshold and at both."""
    turns = Turns.from_decisions([decision(value, str(value), p_yes=value) for value in (1, 1, 1, -1, -1)])
    gates = [gate_of(("p_yes",), threshold=threshold) for threshold in (0.5, 0.6, 0.7)]
    held_out = np.full(5, 0.5), np.array([np.full(5, each) for each in points])
    monkeypatch.setattr(gate_fit, "cross_validate", lambda *_, **__: held_out)
    monkeypatch.setattr(gate_fit, "fit", lambda *_, **__: gates)
    gate, _, own = study_gate(turns, folds=2, repeats=1)
    assert gate.threshold == gates[chosen].threshold and own[0] == points[chosen]
    monkeypatch.setattr(calibrate, "read_fit_data", lambda _: _fit_data(turns))
    monkeypatch.setattr(calibrate, "list_judged_runs", lambda _: [])
    assert calibrate.main(["--runs", str(presets), *FAST]) == 0
    assert (presets / "gates").exists() is is_written


@pytest.mark.parametrize("line", ["finalise = {max_idk = 0.9}", "finalise.max_idk = 0.9"])
def test_a_preset_in_which_a_value_would_get_lost_stays_as_it_is(
    presets: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    """tomlkit refuses a table within an inline one, and puts one beside dotted keys at the end of the file, outside of the table."""
    turns = Turns.from_decisions([_checked(1, 0.7)])
    monkeypatch.setattr(calibrate, "list_judged_runs", lambda _: [])
    monkeypatch.setattr(calibrate, "read_fit_data", lambda _: _fit_data(turns))
    text = f'[models."{MODEL}"]\n{line}\n'
    (presets / "best.toml").write_text(text)
    assert calibrate.main(["--runs", str(presets), *FAST, "--fit", "algorithm1"]) == 2
    output = " ".join(capsys.readouterr().out.split())
    assert f'write [models."{MODEL}"] by hand: finalise.algorithm1.low = 0.7, finalise.algorithm1.high = 1.0' in output
    assert (presets / "best.toml").read_text() == text


def test_from_a_run_to_a_preset(
    tmp_path: Path, presets: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gate_study, "plot_gate", plots.plot_gate)
    _write_run(tmp_path / "run")
    assert calibrate.main(["--runs", str(tmp_path / "run"), *FAST, "--dry-run"]) == 0
    assert not (presets / "gates").exists()
    assert calibrate.main(["--runs", str(tmp_path / "run"), *FAST]) == 0
    table = tomllib.loads((presets / "best.toml").read_text())["models"][f"{MODEL} + efficientnet-lite2"]["finalise"]
    assert table["gate"] == "presets/gates/best_embedded.json"
    gate = Gate.load(presets / "gates" / "best_embedded.json")
    assert gate.probability({"p_yes": 0.8}) > gate.threshold > gate.probability({"p_yes": 0.3})
    assert {name: gate.fitted_on[name] for name in ("split", "turns", "sessions", "judge", "candidates", "right")} == {
        "split": "validation", "turns": 24, "sessions": 12, "judge": "rule", "candidates": 24, "right": 13
    }  # fmt: skip
    summary = json.loads((tmp_path / "run" / "calibration.json").read_text())
    # 12 right first answers and one right second of 24; all but the latter are told apart
    assert summary["truthfulness"]["every candidate is given"]["mean"] == pytest.approx((13 - 11) / 24)
    assert summary["truthfulness"]["gate, on the same turns"]["mean"] == pytest.approx(12 / 24)
    assert summary["auroc"]["p_yes"] > 0.9 and summary["auroc"]["gate"] > 0.9
    assert (tmp_path / "run" / "calibration.png").stat().st_size > 1000
    printed = capsys.readouterr().out
    assert "gate, cross-validated" in printed


@pytest.mark.parametrize(
    ("question", "truth", "right"),
    [("second {}?", "blue whale", 15), ("second {} now?", "blue whale", 13), ("second {}?", "brown bear", 13)],
    ids=["the same", "another question", "another truth"],
)
def test_accept_forms_are_not_those_of_a_question_that_was_edited(
    tmp_path: Path, presets: Path, question: str, truth: str, right: int
) -> None:
    """A question of the set keeps its id, whatever it asks by now."""
    _write_run(tmp_path / "run")
    rows = [row(f"s{number}", 2, "v0.1.2", picture(f"rgb({number}, 0, 0)"), None) for number in range(12)]
    for number, each in enumerate(rows):
        each["turns"][1]["query"] = question.format(number)
        each["answers"][0]["ans_full"] = truth
    data = write_dataset(tmp_path / "data", rows, "v0.1.2")
    (data / "accept.json").write_text(json.dumps({"s1-1": ["red fox"], "s2-1": ["red fox"]}))
    places = ["--runs", str(tmp_path / "run"), "--dataset", str(data), "--cache", str(tmp_path)]
    assert calibrate.main([*places, *FAST, "--dry-run"]) == 0
    assert json.loads((tmp_path / "run" / "calibration.json").read_text())["right"] == right


def test_a_gate_is_for_the_models_of_its_run(tmp_path: Path, presets: Path) -> None:
    """Also where ``--model-name`` replaced the profile's; no other model under that profile gets it."""
    _write_run(tmp_path / "run")
    about = tmp_path / "run" / "run.json"
    about.write_text(json.dumps({**json.loads(about.read_text()), "profile": "gpu", "model_name": "org/Own-7B"}))
    assert calibrate.main(["--runs", str(tmp_path / "run"), *FAST]) == 0
    tables = tomllib.loads((presets / "best.toml").read_text())["models"]
    assert tables["org/Own-7B + openai/clip-vit-large-patch14-336"] == {
        "finalise": {"gate": "presets/gates/best_gpu_Own-7B.json"}
    }
    assert (presets / "gates" / "best_gpu_Own-7B.json").is_file()


def test_a_gate_is_measured_that_the_preset_has_for_the_models_of_the_runs(
    tmp_path: Path, presets: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _write_run(tmp_path / "run")
    assert calibrate.main(["--measure", str(tmp_path / "run"), "--preset", "best"]) == 0
    summary = json.loads((tmp_path / "run" / "gate_measured.json").read_text())
    assert summary["gate"]["fitted_on"]["models"] == summary["models"] == [MODEL, "efficientnet-lite2"]
    _note(tmp_path / "run", profile="laptop")
    assert calibrate.main(["--measure", str(tmp_path / "run"), "--preset", "best"]) == 2
    assert "preset 'best' has no gate for" in " ".join(capsys.readouterr().out.split())


INT8 = f"{MODEL} (int8)"


def _roundings(folder: Path) -> list[Path]:
    """Three runs of the same dialogs by the same weights; in the last one seven first answers are wrong."""
    runs = [folder / "llama_cpp", folder / "avx2", folder / "vnni"]
    for run, profile, chat in zip(runs, ("embedded", *["embedded_batch"] * 2), (MODEL, INT8, INT8), strict=True):
        _write_run(run)
        _note(run, profile=profile, models={"chat": f"{chat} + efficientnet-lite2"})
    turns = [
        replace(each, correct=False, exact=False) if each.turn.turn_idx == 0 and each.turn.session_id < "s4" else each
        for each in read_turn_table(runs[2])
    ]
    (runs[2] / ALL_TURNS).write_text(build_turn_table(turns).to_csv(index=False))
    return runs


def test_one_gate_is_fitted_to_all_roundings_and_its_worth_is_told_of_each(
    tmp_path: Path, presets: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = _roundings(tmp_path)
    assert calibrate.main(["--runs", *map(str, runs), *FAST]) == 0
    table = tomllib.loads((presets / "best.toml").read_text())["models"][f"{MODEL} + efficientnet-lite2"]["finalise"]
    assert table["gate"] == "presets/gates/best_embedded_embedded_batch.json"
    gate = Gate.load(presets / "gates" / "best_embedded_embedded_batch.json")
    about = {name: gate.fitted_on[name] for name in ("profile", "chat", "models", "turns", "sessions")}
    assert about == {
        "profile": "embedded, embedded_batch", "chat": [MODEL, INT8], "models": [MODEL, "efficientnet-lite2"],
        "turns": 72, "sessions": 12,
    }  # fmt: skip
    summary = json.loads((runs[0] / "calibration.json").read_text())
    policies = ["every candidate is given", "gate, on the same turns", "gate, cross-validated"]
    told = [
        (each["run"], each["profile"], each["chat"], each["truthfulness"][policies[0]]["mean"])
        for each in summary["by_run"]
    ]
    assert told == [
        (str(runs[0]), "embedded", MODEL, pytest.approx(2 / 24)),
        (str(runs[1]), "embedded_batch", INT8, pytest.approx(2 / 24)),
        (str(runs[2]), "embedded_batch", INT8, pytest.approx(-10 / 24)),
    ]
    for policy in policies:
        of_each = [each["truthfulness"][policy]["mean"] for each in summary["by_run"]]
        assert np.mean(of_each) == pytest.approx(summary["truthfulness"][policy]["mean"])
    assert "Truthfulness of each run" in capsys.readouterr().out


def test_turns_about_one_photo_are_on_one_side_whatever_run_they_are_of(tmp_path: Path, presets: Path) -> None:
    """The three runs of a dialog are one group, and one session of the interval."""
    runs = _roundings(tmp_path)
    options = calibrate.CalibrateOptions.parse(["--runs", *map(str, runs), *FAST])
    turns = read_fit_data(calibrate.list_judged_runs(options)).turns
    assert len(turns.points) == 72 and len({*turns.groups}) == len({*turns.session}) == 12
    for number in range(24):
        assert len({*turns.groups[number::24]}) == 1 and len({*turns.run[number::24]}) == 3
    alone = read_fit_data(calibrate.list_judged_runs(options)[:1]).turns
    estimate, same = measure_truthfulness(turns, turns.points, str(runs[0])), measure_truthfulness(alone, alone.points)
    assert estimate == same


@pytest.mark.parametrize(
    ("noted", "said"),
    [
        ({"profile": "embedded_smollm2"}, "two by smollm2 + efficientnet-lite2 + {} with"),
        ({"profile": "server_embedded", "model_name": "org/Own-7B"}, "two by org/Own-7B + efficientnet-lite2 + {} with"),
        ({"profile": "embedded", "models": {"chat": "trained (int8) + other"}}, "two by {} + efficientnet-lite2 + trained with"),
    ],
)  # fmt: skip
def test_runs_of_other_weights_are_not_fitted_together(
    tmp_path: Path, presets: Path, capsys: pytest.CaptureFixture[str], noted: dict[str, Any], said: str
) -> None:
    for run, about in (("one", {"models": {"chat": MODEL}}), ("two", noted)):
        _write_run(tmp_path / run)
        _note(tmp_path / run, **about)
    command = ["--runs", str(tmp_path / "one"), str(tmp_path / "two"), *FAST, "--gate", str(tmp_path / "gate.json")]
    assert calibrate.main(command) == 2
    output = " ".join(capsys.readouterr().out.split())
    assert said.format(MODEL) in output and "the same weights at a time" in output


def _note(run: Path, **settings: Any) -> None:
    about = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(about | settings))


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        ({}, {"without": "verify"}, "efficientnet-lite2 with the whole preset, and {}two by {}with --without verify: one preset"),
        ({"set": "answer.k=3"}, {"set": "answer.k=4"}, "with --set answer.k=3, and {}two by {}with --set answer.k=4"),
        ({"set": 'a.b=["x", "y"], finalise.gate=null'}, {"set": 'limits.batch_size=2, a.b=["x", "y"]'}, None),
        ({"set": "finalise.verified_by=[], finalise.gate=null, limits.seconds_per_turn=60"}, {"set": ""}, None),
        ({"set": "a.b=1, c.d=2"}, {"set": "c.d=2, a.b=1"}, None),
    ],
)  # fmt: skip
def test_runs_of_other_settings_are_not_fitted_together(
    tmp_path: Path, presets: Path, capsys: pytest.CaptureFixture[str], one: dict[str, str], other: dict[str, str], said: str | None
) -> None:  # fmt: skip
    """Only what becomes of the candidates, and how long they may take, may differ."""
    runs = [tmp_path / "one", tmp_path / "two"]
    for run, settings in zip(runs, (one, other), strict=True):
        _write_run(run)
        _note(run, **settings)
    command = ["--runs", *map(str, runs), *FAST, "--dry-run"]
    assert calibrate.main(command) == (0 if said is None else 2)
    if said is not None:
        assert said.format(f"{tmp_path}/", f"{MODEL} + efficientnet-lite2 ") in " ".join(
            capsys.readouterr().out.split()
        )


@pytest.mark.parametrize("method", ["gate", "white_box"])
def test_a_fit_without_some_stages_is_not_written_into_the_whole_preset(
    tmp_path: Path, presets: Path, capsys: pytest.CaptureFixture[str], method: str
) -> None:
    _write_run(tmp_path / "run", min_probability=Signal(0.5), mean_probability=Signal(0.9))
    _note(tmp_path / "run", without="verify", set="finalise.gate=null, answer.k=3")
    original = (presets / "best.toml").read_text()
    command = ["--runs", str(tmp_path / "run"), *FAST, "--fit", method]
    assert calibrate.main(command) == 2
    assert "the runs were made without verify" in " ".join(capsys.readouterr().out.split())
    assert calibrate.main([*command, "--dry-run"]) == 0
    assert (presets / "best.toml").read_text() == original and not (presets / "gates").exists()


def test_a_gate_without_some_stages_says_so_in_a_file_of_its_own(tmp_path: Path, presets: Path) -> None:
    _write_run(tmp_path / "run")
    _note(tmp_path / "run", without="verify", set="finalise.gate=null, answer.k=3")
    gate = tmp_path / "gate.json"
    assert calibrate.main(["--runs", str(tmp_path / "run"), *FAST, "--gate", str(gate)]) == 0
    fitted_on = Gate.load(gate).fitted_on
    assert (fitted_on["without"], fitted_on["set"]) == ("verify", "finalise.gate=null, answer.k=3")


def test_a_gate_that_is_measured_on_its_own_turns_says_so(tmp_path: Path, presets: Path) -> None:
    for run, split in (("run", "validation"), ("test", "public_test")):
        _write_run(tmp_path / run, split=split)
    assert calibrate.main(["--runs", str(tmp_path / "run"), *FAST]) == 0
    gate = ["--gate", str(presets / "gates" / "best_embedded.json")]
    for run, marked in (("run", 1), ("test", 0)):
        assert calibrate.main(["--measure", str(tmp_path / run), "--preset", "best", *gate]) == 0
        policies = json.loads((tmp_path / run / "gate_measured.json").read_text())["truthfulness"]
        assert sum("(fitted on these turns)" in policy for policy in policies) == marked


def test_a_gate_of_other_weights_has_a_file_of_its_own(
    tmp_path: Path, presets: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a run whose weights ``CRAG_GGUF`` named, the gate does not become that of the profile's own."""
    _write_run(tmp_path / "run")
    about = tmp_path / "run" / "run.json"
    about.write_text(json.dumps({**json.loads(about.read_text()), "models": {"chat": "trained (int8) + other"}}))
    original = (presets / "best.toml").read_text()
    assert calibrate.main(["--runs", str(tmp_path / "run"), *FAST]) == 2
    output = " ".join(capsys.readouterr().out.split())
    assert "made with the chat model 'trained (int8)'" in output and "--gate" in output
    gate = tmp_path / "own" / "gate.json"
    assert calibrate.main(["--runs", str(tmp_path / "run"), *FAST, "--gate", str(gate)]) == 0
    assert f"--set finalise.gate={gate}" in capsys.readouterr().out
    assert Gate.load(gate).fitted_on["turns"] == 24
    assert (presets / "best.toml").read_text() == original and not (presets / "gates").exists()


def test_a_rule_fitted_to_other_weights_is_not_written_for_the_profiles_own(tmp_path: Path, presets: Path) -> None:
    _write_run(tmp_path / "run", min_probability=Signal(0.5), mean_probability=Signal(0.9))
    _note(tmp_path / "run", models={"chat": "trained (int8) + other"})
    original = (presets / "best.toml").read_text()
    command = ["--runs", str(tmp_path / "run"), *FAST, "--fit", "white_box"]
    assert calibrate.main(command) == 2 and calibrate.main([*command, "--dry-run"]) == 0
    assert (presets / "best.toml").read_text() == original


@pytest.mark.parametrize("models", ["x", None, 5, ["chat"]])
def test_a_run_that_notes_its_models_in_another_shape_is_fitted(tmp_path: Path, presets: Path, models: Any) -> None:
    _write_run(tmp_path / "run")
    about = tmp_path / "run" / "run.json"
    about.write_text(json.dumps({**json.loads(about.read_text()), "models": models}))
    assert calibrate.main(["--runs", str(tmp_path / "run"), *FAST, "--dry-run"]) == 0


@pytest.mark.parametrize("differ", [True, False])
def test_the_gate_that_is_written_divides_photos_only_where_that_gains(
    tmp_path: Path, presets: Path, monkeypatch: pytest.MonkeyPatch, differ: bool
) -> None:
    monkeypatch.setattr(calibrate, "list_judged_runs", lambda _: [])
    monkeypatch.setattr(calibrate, "read_fit_data", lambda _: _fit_data(_photos(120, differ=differ)))
    assert calibrate.main(["--runs", str(tmp_path), *FAST]) == 0
    gate = Gate.load(presets / "gates" / "best_embedded.json")
    assert (gate.threshold_egocentric is not None and gate.threshold_egocentric > gate.threshold) is differ
    policies = json.loads((tmp_path / "calibration.json").read_text())["truthfulness"]
    assert gate.fitted_on["cross_validated"][0] == policies["gate, cross-validated"]["mean"]


def test_a_fitted_line_takes_the_place_of_the_bounds(tmp_path: Path, presets: Path) -> None:
    _write_run(tmp_path / "run", min_probability=Signal(0.5), mean_probability=Signal(0.9))
    assert calibrate.main(["--runs", str(tmp_path / "run"), *FAST, "--fit", "white_box"]) == 0
    [fitted] = [
        table["verify"]
        for table in tomllib.loads((presets / "best.toml").read_text())["models"].values()
        if "verify" in table
    ]
    assert fitted["white_box"] == "line" and {"weight_min", "weight_mean", "white_box_threshold"} <= set(fitted)


def test_public_test_is_measured_and_never_fitted(
    tmp_path: Path, presets: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _write_run(tmp_path / "run")
    _write_run(tmp_path / "test", split="public_test")
    original = (presets / "best.toml").read_text()
    for method in ("gate", "white_box", "algorithm1"):
        assert calibrate.main(["--runs", str(tmp_path / "test"), *FAST, "--fit", method]) == 2
        assert "only validation is fitted on" in " ".join(capsys.readouterr().out.split())
    assert (presets / "best.toml").read_text() == original
    measure = [
        "--measure",
        str(tmp_path / "test"),
        "--preset",
        "best",
        "--gate",
        str(presets / "gates" / "best_embedded.json"),
    ]
    assert calibrate.main(measure) == 2
    assert "cannot be read" in capsys.readouterr().out  # no gate yet
    assert calibrate.main(["--runs", str(tmp_path / "run"), *FAST]) == 0
    fitted = (presets / "gates" / "best_embedded.json").read_text()
    assert calibrate.main(measure) == 0
    summary = json.loads((tmp_path / "test" / "gate_measured.json").read_text())
    assert summary["split"] == "public_test"
    assert summary["truthfulness"]["gate, threshold 0.500"]["mean"] == pytest.approx(12 / 24)
    assert summary["auroc"]["gate"] > 0.9
    assert (presets / "gates" / "best_embedded.json").read_text() == fitted


def test_a_gate_that_is_worth_nothing_is_not_written(tmp_path: Path, presets: Path) -> None:
    """Most candidates are right, whatever the signals say."""
    _write_run(tmp_path / "run")
    trace = tmp_path / "run" / "trace.jsonl"
    records = []
    for number, record in enumerate(map(read_record, trace.read_text().splitlines())):
        candidate = "the blue whale" if number % 2 and number not in (3, 7, 11, 15, 19) else "truth"
        [stage] = record.stages
        assert stage.decision is not None
        final = replace(stage, decision=replace(stage.decision, candidate=candidate))
        records.append(replace(record, stages=(final,)))
    write_records(trace, records)
    assert calibrate.main(["--runs", str(tmp_path / "run"), *FAST]) == 0
    assert not (presets / "gates").exists()


@pytest.mark.parametrize(
    ("preset", "note", "message"),
    [("direct_rag", True, "made with preset 'direct_rag', not 'best'"), ("best", False, "holds no candidate answers")],
)
def test_runs_that_do_not_fit_are_refused(
    tmp_path: Path, presets: Path, capsys: pytest.CaptureFixture[str], preset: str, note: bool, message: str
) -> None:
    _write_run(tmp_path / "run", preset, note=note)
    assert calibrate.main(["--runs", str(tmp_path / "run"), *FAST]) == 2
    assert message in " ".join(capsys.readouterr().out.split())
    assert not (presets / "gates").exists()
