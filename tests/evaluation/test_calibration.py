"""Thresholds fitted on decisions worked out by hand, and the way from a run to a preset."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation import calibrate
from evaluation.calibration import calibrate as run_calibration
from evaluation.calibration import current_policy, signals_of, values_of
from evaluation.calibration_plot import curve_of
from evaluation.decisions import Decision, read_decisions, run_folders
from evaluation.figures import read_figures
from evaluation.outputs import write_outputs
from evaluation.preset_file import table_of, with_values
from evaluation.records import EvaluationError
from evaluation.rule_judge import RuleJudge
from evaluation.threshold_fit import Columns, Line, Policy, answers, earned, fit, gain, held_out_points
from tests.evaluation.worlds import judged


def decision(points: float, session: str = "s", **fields: Any) -> Decision:
    plain = Decision(
        session, points, free=True, given=True, confidence=None, evidence=0.0, least=None, mean=None, direct=False
    )
    return replace(plain, **fields)


def by_confidence(*pairs: tuple[float | None, float]) -> Columns:
    return Columns.of(
        [decision(points, f"s{number}", confidence=value) for number, (value, points) in enumerate(pairs)]
    )


def test_a_confidence_threshold_lies_between_wrong_and_right() -> None:
    turns = by_confidence((0.9, 1), (0.8, 1), (0.6, -1), (0.5, -1))
    policy = fit(turns, ["confidence"])
    assert policy.min_confidence == pytest.approx(0.7)
    assert list(answers(turns, policy)) == [True, True, False, False]
    assert earned(turns, policy).mean() == 0.5


def test_no_threshold_where_none_does_good_and_all_are_held_back_where_all_are_wrong() -> None:
    assert fit(by_confidence((0.9, 1), (0.1, 1)), ["confidence"]) == Policy()
    wrong = by_confidence((0.9, -1), (0.1, -1))
    assert not answers(wrong, fit(wrong, ["confidence"])).any()


def test_a_candidate_without_confidence_passes_no_threshold() -> None:
    turns = by_confidence((0.9, 1), (None, -1), (None, -1))
    policy = fit(turns, ["confidence"])
    assert policy.min_confidence is not None
    assert policy.min_confidence < 0.9
    assert list(answers(turns, policy)) == [True, False, False]


def test_thresholds_of_two_signals_are_fitted_together() -> None:
    turns = Columns.of(
        [
            decision(1, "a", confidence=0.9, evidence=0.9),
            decision(1, "b", confidence=0.8, evidence=0.8),
            decision(-1, "c", confidence=0.9, evidence=0.2),
            decision(-1, "d", confidence=0.2, evidence=0.9),
            decision(1, "e", confidence=0.95, evidence=0.0, direct=True),  # its evidence is not looked at
        ]
    )
    policy = fit(turns, ["confidence", "evidence"])
    assert policy.min_confidence == pytest.approx(0.5)
    assert policy.min_evidence == pytest.approx(0.5)
    assert list(answers(turns, policy)) == [True, True, False, False, True]


def test_the_white_box_line_weighs_the_least_against_the_mean() -> None:
    """Right where the least probability is high, whatever the mean: the weight goes to the least."""
    turns = Columns.of(
        [
            decision(1, "a", least=0.8, mean=0.85),
            decision(1, "b", least=0.7, mean=0.72),
            decision(-1, "c", least=0.1, mean=0.99),
            decision(-1, "d", least=0.2, mean=0.95),
            decision(1, "e", direct=True),
        ]
    )
    line = fit(turns, ["white_box"]).line
    assert line is not None
    assert line.weight_least >= 0.5
    assert line.weight_least + line.weight_mean == pytest.approx(1)
    assert list(answers(turns, Policy(line=line))) == [True, True, False, False, True]
    assert fit(turns.take(turns.points > 0), ["white_box"]).line is None


def test_what_a_rule_forbids_is_never_answered() -> None:
    turns = Columns.of([decision(0, "a", free=False, confidence=1.0), decision(1, "b", confidence=0.5)])
    assert list(answers(turns, Policy())) == [False, True]


@given(
    st.lists(
        st.tuples(
            st.sampled_from([0.1, 0.2, 0.4, 0.7, 0.9]), st.sampled_from([0.0, 0.3, 0.6]), st.sampled_from([-1.0, 1.0])
        ),
        min_size=1,
        max_size=12,
    )
)
def test_no_pair_of_thresholds_beats_the_fitted_one(rows: list[tuple[float, float, float]]) -> None:
    turns = Columns.of([decision(points, f"s{n}", confidence=c, evidence=e) for n, (c, e, points) in enumerate(rows)])
    fitted = earned(turns, fit(turns, ["confidence", "evidence"])).sum()
    grid = [None, *np.linspace(0, 1.1, 23)]
    assert fitted == max(earned(turns, Policy(c, e)).sum() for c in grid for e in grid)


def _noisy(sessions: int, informative: bool) -> Columns:
    """Two turns a session; the confidence tells right from wrong, or is noise."""
    random = np.random.default_rng(3)
    rows = []
    for number in range(sessions):
        for _ in range(2):
            right = random.random() < 0.5
            confidence = random.random() * 0.5 + (0.5 if right and informative else 0.0)
            rows.append(decision(1.0 if right else -1.0, f"s{number}", confidence=float(confidence)))
    return Columns.of(rows)


def test_held_out_points_are_honest() -> None:
    useful = _noisy(60, informative=True)
    base = earned(useful, Policy())
    held_out = held_out_points(useful, ["confidence"], repeats=4)
    found = gain(useful, base, held_out)
    assert found.low > 0.3  # half of the answers are wrong and all of those are told apart
    assert held_out.mean() <= earned(useful, fit(useful, ["confidence"])).mean()
    noise = _noisy(60, informative=False)
    in_sample = earned(noise, fit(noise, ["confidence"])).mean()
    assert held_out_points(noise, ["confidence"], repeats=4).mean() < in_sample


def test_cross_validation_never_looks_at_the_other_turns_of_a_session() -> None:
    """Three sessions with one confidence each, whose turns agree: seeing one turn of a session would give the others away."""
    turns = Columns.of(
        [decision(points, name, confidence=value) for name, value, points in
         (("a", 0.9, -1.0), ("b", 0.5, 1.0), ("c", 0.1, -1.0)) for _ in range(4)]
    )  # fmt: skip
    held_out = held_out_points(turns, ["confidence"], folds=3, repeats=1)
    assert held_out[turns.session == 0].mean() == -1.0  # fitted on b and c, 0.9 looks safe
    with pytest.raises(ValueError, match="two sessions"):
        held_out_points(turns.take(turns.session == 0), ["confidence"])


def test_results_depend_on_the_seed_alone() -> None:
    turns = _noisy(20, informative=True)
    first = run_calibration(turns, Policy(), ["confidence"], repeats=2, seed=5)
    assert first == run_calibration(turns, Policy(), ["confidence"], repeats=2, seed=5)


def test_a_gain_over_itself_is_nothing() -> None:
    turns = _noisy(10, informative=True)
    same = earned(turns, Policy())
    assert (gain(turns, same, same).mean, gain(turns, same, same).low, gain(turns, same, same).high) == (0, 0, 0)


def test_the_curve_of_a_signal() -> None:
    turns = Columns.of(
        [
            decision(1, "a", confidence=0.9),
            decision(1, "b", confidence=0.5),
            decision(-1, "c", confidence=0.5),  # equal scores go together
            decision(0, "d", free=False, confidence=1.0),
        ]
    )
    curve = curve_of(turns, turns.confidence)
    assert list(curve.abstained) == [1.0, 0.75, 0.25]
    assert np.isnan(curve.accuracy[0])
    assert list(curve.accuracy[1:]) == [1.0, pytest.approx(2 / 3)]
    assert list(curve.truthfulness) == [0.0, 0.25, 0.25]


PRESET = """# Ours.
stages = ["understand", "answer", "finalise"]

[finalise]
min_confidence = 0.9  # by hand
abstain_real_time = true

# small models
[profiles.embedded]
stages = ["understand", "extract", "finalise"]  # no generation
"""


def test_values_go_into_the_right_table_and_comments_stay(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(PRESET)
    assert table_of(path, "embedded") == "profiles.embedded"
    assert table_of(path, "gpu") == "main"
    values = {"finalise.min_confidence": 0.4321, "finalise.min_evidence": None, "verify.weight_least": 0.3}
    text = with_values(path, "profiles.embedded", values, "fitted")
    table = tomllib.loads(text)
    assert table["profiles"]["embedded"]["finalise"] == {"min_confidence": 0.4321}
    assert table["profiles"]["embedded"]["verify"] == {"weight_least": 0.3}
    assert table["finalise"] == {"min_confidence": 0.9, "abstain_real_time": True}
    for comment in ("# Ours.", "# by hand", "# small models", "# no generation", "0.4321 # fitted"):
        assert comment in text
    main = tomllib.loads(with_values(path, "main", {"finalise.min_confidence": None}, "fitted"))
    assert main["finalise"] == {"abstain_real_time": True}
    assert "embedded" in main["profiles"]


def test_a_preset_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match="there is no preset"):
        table_of(tmp_path / "none.toml", "gpu")
    (tmp_path / "broken.toml").write_text("[x")
    with pytest.raises(EvaluationError, match="not valid TOML"):
        table_of(tmp_path / "broken.toml", "gpu")
    (tmp_path / "odd.toml").write_text("finalise = 3\n")
    with pytest.raises(EvaluationError, match="finalise is no table"):
        with_values(tmp_path / "odd.toml", "main", {"finalise.min_confidence": 1.0}, "")


SETTINGS: dict[str, Any] = {
    "stages": ["answer", "verify", "finalise"],
    "verify": {"white_box": True, "weight_least": 0.5, "weight_mean": 0.5, "white_box_threshold": 0.6},
    "finalise": {"min_confidence": 0.2, "min_evidence": None, "verified_by": ["white_box"]},
}


def test_what_is_fitted_follows_the_preset_and_the_traces() -> None:
    assert current_policy(SETTINGS) == Policy(0.2, None, Line(0.5, 0.5, 0.6))
    turns = Columns.of([decision(1, confidence=0.5, least=0.1, mean=0.2)])
    assert signals_of(turns, SETTINGS, None) == ["confidence", "white_box"]  # no chunk has a score
    assert signals_of(turns, SETTINGS | {"stages": ["answer", "finalise"]}, None) == ["confidence"]
    with pytest.raises(EvaluationError, match="hold no evidence"):
        signals_of(turns, SETTINGS, ["evidence"])
    policy = Policy(0.5, None, None)
    assert values_of(policy, ["confidence", "evidence", "white_box"]) == {
        "finalise.min_confidence": 0.5,
        "finalise.min_evidence": None,
    }


def _write_run(folder: Path, preset: str = "best", note: bool = True) -> None:
    """Twelve dialogs of two turns: right where the confidence is high; one wrong candidate a dialog was held back."""
    turns, lines, costs = [], [], []
    for number in range(12):
        first, second = judged("cm", f"s{number}")
        first = replace(
            first, turn=replace(first.turn, query=f"first {number}?", agent_response="truth", ground_truth="truth")
        )
        held = replace(second.turn, query=f"second {number}?", agent_response="I don't know", ground_truth="blue whale")
        for position, (found, candidate, confidence) in enumerate(
            [(first, "truth", 0.8), (replace(second, turn=held), "a red fox" if number else "the blue whale", 0.3)]
        ):
            turns.append(found)
            final = {
                "stage": "finalise", "candidate": candidate, "confidence": confidence, "evidence_score": 0.5,
                "least_probability": None, "mean_probability": None, "direct": False, "ruled_out": None,
            }  # fmt: skip
            key = {"session_id": found.turn.session_id, "interaction_id": found.turn.interaction_id}
            stages = [final if note else {"stage": "finalise"}]
            lines.append(
                {
                    "batch": number,
                    "turn": position,
                    "query": found.turn.query,
                    "answer": found.turn.agent_response,
                    "stages": stages,
                }
            )
            place = {"batch": number, "turn": position, "batch_size": 2}
            costs.append({**key, **place, "seconds": 1.0, "batch_seconds": 2.0, "error": None, "image_note": None})
    folder.mkdir(parents=True)
    write_outputs(folder, turns, {"judge": "rule"})
    (folder / "trace.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "run_log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in costs))
    (folder / "run.json").write_text(
        json.dumps({"preset": preset, "profile": "embedded", "dataset": "crag-mm-multi-turn-public@v0.1.2/x"})
    )


def test_candidates_that_were_held_back_are_judged(tmp_path: Path) -> None:
    _write_run(tmp_path / "run")
    decisions = read_decisions(tmp_path / "run", RuleJudge())
    assert len(decisions) == 24
    assert [(made.points, made.given) for made in decisions[:4]] == [(1, True), (1, False), (1, True), (-1, False)]
    assert run_folders([tmp_path]) == [tmp_path / "run"]
    trace = tmp_path / "run" / "trace.jsonl"
    late = {"stage": "rerank", "seconds": 0.0, "skipped": "0.00 s left, needs 1.0 s"}
    first, *others = [json.loads(line) for line in trace.read_text().splitlines()]
    first["stages"].insert(0, late)
    trace.write_text("".join(json.dumps(line) + "\n" for line in [first, *others]))
    assert len(read_decisions(tmp_path / "run", RuleJudge())) == 23  # the deadline cut that turn short
    assert read_figures(tmp_path / "run")[0].cut_short == 1
    with pytest.raises(EvaluationError, match="holds no judged run"):
        run_folders([tmp_path / "run" / "deeper"])


def test_from_a_run_to_a_preset(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _write_run(tmp_path / "run")
    out = tmp_path / "fitted.toml"
    arguments = ["--runs", str(tmp_path / "run"), "--preset", "best", "--out", str(out), "--fit", "confidence"]
    assert calibrate.main(arguments) == 0
    written = tomllib.loads(out.read_text())["finalise"]
    assert written["min_confidence"] == pytest.approx(0.55)
    summary = json.loads((tmp_path / "run" / "calibration.json").read_text())
    # 12 right first answers and one right second of 24; all but the latter are told apart
    assert summary["everything"] == pytest.approx((13 - 11) / 24)
    assert summary["fitted"] == pytest.approx(12 / 24)
    assert summary["over_everything"]["low"] > 0
    assert (tmp_path / "run" / "calibration.png").stat().st_size > 1000
    printed = capsys.readouterr().out
    assert "expected gain over giving every candidate" in printed
    assert "finalise.min_confidence = 0.55" in printed


def test_a_preset_that_is_no_worse_is_left_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _write_run(tmp_path / "run")  # 0.5 tells these answers apart as well as anything
    original = (calibrate.PRESETS / "best.toml").read_text(encoding="utf-8")
    finalise = {"min_confidence": 0.5, "min_evidence": None, "verified_by": []}
    settings = SETTINGS | {"stages": ["answer", "finalise"], "finalise": finalise}
    monkeypatch.setattr(calibrate.local_evaluation, "settings_table", lambda *_, **__: settings)
    monkeypatch.setattr(calibrate, "PRESETS", tmp_path)
    copy = tmp_path / "best.toml"
    copy.write_text(original, encoding="utf-8")
    assert calibrate.main(["--runs", str(tmp_path / "run"), "--preset", "best", "--fit", "confidence"]) == 0
    assert "is left as it is" in " ".join(capsys.readouterr().out.split())
    assert copy.read_text(encoding="utf-8") == original


@pytest.mark.parametrize(
    ("preset", "note", "said"),
    [("direct_rag", True, "made with preset 'direct_rag', not 'best'"), ("best", False, "holds no candidate answers")],
)
def test_runs_that_do_not_fit_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], preset: str, note: bool, said: str
) -> None:
    _write_run(tmp_path / "run", preset, note)
    assert calibrate.main(["--runs", str(tmp_path / "run"), "--preset", "best", "--out", str(tmp_path / "x")]) == 2
    assert said in " ".join(capsys.readouterr().out.split())
    assert not (tmp_path / "x").exists()
