"""The gate: probabilities worked out by hand, what it does with gaps and broken files, and its place in the last stage."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.base.linear_head import HeadError
from agents.decision.signals import SIGNALS, read_signals
from agents.methods.gate import Gate
from agents.profiles.profile import PRESETS, ROOT, SettingsError
from agents.record import Decision
from agents.search.hits import Entity, ImageHit
from agents.search.provided_context import parse_provided
from agents.settings.presets import settings_from
from agents.stage import stage_class, stage_names
from agents.stages.finalise import Finalise, FinaliseOptions
from agents.stages.image_search import ImageSearch
from agents.stages.select_entity import SelectEntity
from agents.turn import IDK, Candidate, ChainOfVerification, Evidence, Tools, Verification
from evaluation.run.provided_evidence import format_evidence
from tests.agent.scripted import context, run, run_stages, turn

GATE = Gate(
    classes=("wrong", "right"),
    features=("p_idk", "p_yes"),
    coefficients=((-1.0, 2.0),),
    intercept=(0.5,),
    mean=(0.2, 0.5),
    scale=(0.1, 0.25),
    threshold=0.6,
)


def test_the_probability_is_that_of_the_regression() -> None:
    # log-odds 0.5 - (0.3 - 0.2) / 0.1 + 2 (0.75 - 0.5) / 0.25 = 1.5
    assert GATE.probability({"p_idk": 0.3, "p_yes": 0.75}) == pytest.approx(1 / (1 + math.exp(-1.5)))
    # a missing signal has its mean: 0.5 - 1 = -0.5
    assert GATE.probability({"p_idk": 0.3}) == pytest.approx(1 / (1 + math.exp(0.5)))
    assert GATE.probability({}) == pytest.approx(1 / (1 + math.exp(-0.5)))


def test_pulls_are_the_terms_of_the_regression_strongest_first() -> None:
    signals = {"p_idk": 0.3, "p_yes": 0.75, "unknown": 1.0}
    pulls = GATE.pulls(signals)
    assert pulls == pytest.approx({"p_yes": 2.0, "p_idk": -1.0}) and [*pulls] == ["p_yes", "p_idk"]
    odds = sum(pulls.values()) + GATE.intercept[0]
    assert GATE.probability(signals) == pytest.approx(1 / (1 + math.exp(-odds)))
    assert GATE.pulls({"p_yes": math.nan}) == {}
    with pytest.raises(ValueError, match="one row of coefficients"):
        Gate(**{**dict(GATE), "coefficients": ((0.5, -1.0), (-0.5, 1.0)), "intercept": (-0.25, 0.25)})


def test_a_decision_names_the_signals_that_pulled_its_way() -> None:
    pulls = {"no_entity": -0.94, "p_yes": 0.6, "evidence_score": -0.42, "cross_check.own": -0.2, "p_idk": -0.1}
    withheld = Decision("1874", False, "44% sure, 50% needed", probability=0.44, needed=0.5, pulls=pulls)
    assert withheld.pulled == "no entity -0.9, evidence score -0.4, cross check own -0.2"
    assert str(withheld) == f"abstained: 44% sure, 50% needed ({withheld.pulled})"
    assert Decision("1874", True, pulls=pulls).pulled == "p yes +0.6"
    assert Decision("1874", False, "97% sure, 99% needed", pulls={"p_yes": 0.6, "no_evidence": -0.01}).pulled == ""
    assert Decision("1874", False, "it is no time", ruled_out="it is no time", pulls=pulls).pulled == ""


@pytest.mark.parametrize(("text", "weighed"), [("1874", True), (IDK, False), ("I'm sorry, I don't know that.", False)])
def test_a_refusal_is_not_weighed(text: str, weighed: bool) -> None:
    """The gate says how likely an answer is right; "I don't know" with a probability above the threshold reads like a contradiction."""
    asked = turn("When was it built?", candidate=Candidate(text, None, idk=0.1))
    run(
        Finalise,
        [asked],
        context(settings_from({"stages": ["finalise"], "finalise": {"gate": "presets/gates/best_embedded.json"}})),
    )
    asked.close_stage("finalise", 0.0)
    (decision,) = [record.decision for record in asked.records if record.decision is not None]
    assert (decision.probability is not None) == (decision.needed is not None) == bool(decision.pulls) == weighed
    assert decision.given or weighed or decision.reason == "the model does not know"


VALUES = st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True))


@given(st.fixed_dictionaries({}, optional=dict.fromkeys((kind.name for kind in SIGNALS), VALUES)))
def test_whatever_is_missing_the_probability_is_one(values: dict[str, float | None]) -> None:
    assert 0 <= GATE.probability(values) <= 1


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.one_of(st.none(), st.floats(0, 1)))
def test_more_of_a_good_sign_never_lowers_the_probability(one: float, other: float, p_idk: float | None) -> None:
    low, high = sorted((one, other))
    low_one, high_one = ({"p_idk": p_idk, "p_yes": p_yes} for p_yes in (low, high))
    assert GATE.probability(low_one) <= GATE.probability(high_one)


def test_a_gate_survives_its_file(tmp_path: Path) -> None:
    GATE.save(tmp_path / "gates" / "x.json")
    assert Gate.load(tmp_path / "gates" / "x.json") == GATE


def test_the_file_names_each_weight_by_its_signal(tmp_path: Path) -> None:
    GATE.save(tmp_path / "x.json")
    fields = json.loads((tmp_path / "x.json").read_text())
    assert fields["signals"] == {
        "p_idk": {"weight": -1.0, "mean": 0.2, "scale": 0.1},
        "p_yes": {"weight": 2.0, "mean": 0.5, "scale": 0.25},
    }
    assert (fields["intercept"], fields["threshold"]) == (0.5, 0.6)


COMMITTED = PRESETS / "gates" / "best_embedded.json"
SOME_SIGNALS: list[dict[str, float]] = [
    {},
    dict.fromkeys(Gate.load(COMMITTED).features, 0.5),
    {name: place % 3 / 2 for place, name in enumerate(Gate.load(COMMITTED).features)},
    {"p_idk": 0.01, "p_yes": 0.71, "steps.taken": 2.0},
    {"p_idk": 0.9, "no_entity": 1.0, "entity_score": 0.75},
]


@pytest.mark.parametrize("signals", SOME_SIGNALS)
def test_the_committed_gate_is_a_logistic_function_of_its_table(signals: dict[str, float]) -> None:
    table = json.loads(COMMITTED.read_text())
    shares = (
        entry["weight"] * (signals[name] - entry["mean"]) / entry["scale"]
        for name, entry in table["signals"].items()
        if name in signals
    )
    odds = math.exp(table["intercept"] + sum(shares))
    assert Gate.load(COMMITTED).probability(signals) == pytest.approx(odds / (1 + odds))


def _table(**fields: Any) -> str:
    return json.dumps({"signals": _signal(), "intercept": 0.5, **fields})


def _signal(**numbers: Any) -> dict[str, Any]:
    return {"p_yes": {"weight": 2.0, "mean": 0.5, "scale": 0.25, **numbers}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "malformed"),
        (json.dumps(GATE.model_dump()), "a table of weight, mean, scale"),
        (_table(classes=["a", "b", "c"]), "3 classes"),
        (_table(classes=["right", "wrong"]), "wrong, right in this order"),
        (_table(signals=_signal(scale=0.0)), "has to be above 0"),
        (_table(signals=_signal(mean=None)), "mean"),
        (_table(signals=_signal(weight=math.nan)), "malformed"),
        (_table(signals=_signal(weight="much")), "malformed"),
        (_table(intercept=None), "malformed"),
        (_table(threshold=2), "malformed"),
        (_table(threshold_egocentric=2), "malformed"),
        (_table(signals={}), "malformed"),
        (_table(signals=["p_yes"]), "a table of weight, mean, scale"),
        (_table(signals={"p_yes": {"weight": 1.0}}), "a table of weight, mean, scale"),
        (_table(mean=[0.5]), "signals and mean say the same"),
    ],
)
def test_a_broken_file_says_what_is_wrong_and_what_to_do(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "gate.json").write_text(text)
    with pytest.raises(HeadError, match=message) as caught:
        Gate.load(tmp_path / "gate.json")
    assert "evaluation.studies.calibrate" in str(caught.value)


def test_a_preset_whose_gate_is_missing_is_refused_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"none\.json: the gate .*cannot be read.*evaluation\.studies\.calibrate"):
        settings_from({"stages": ("finalise",)}, overrides=[f"finalise.gate={tmp_path / 'none.json'}"])


def _gate_file(folder: Path, *features: str) -> Path:
    """Write a gate with these signals."""
    columns = {
        "coefficients": ((1.0,) * len(features),),
        "mean": (0.5,) * len(features),
        "scale": (1.0,) * len(features),
    }
    GATE.model_copy(update={"features": features, **columns}).save(folder / "own.json")
    return folder / "own.json"


def test_a_gate_with_a_signal_that_no_stage_declares_is_refused(tmp_path: Path) -> None:
    path = _gate_file(tmp_path, "p_yes", "charm")
    with pytest.raises(
        SettingsError,
        match=r"finalise\.gate: .*own\.json weighs unknown signals: charm; .*or fit the gate again; known: .*p_idk",
    ):
        settings_from({"stages": ("finalise",)}, overrides=[f"finalise.gate={path}"])


@pytest.mark.parametrize("name", ["steps.taken", "somebody.else"])
def test_a_signal_of_a_stage_that_is_left_out_counts_as_its_mean(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = _gate_file(tmp_path, "p_yes", name)
    settings = settings_from({"stages": ("finalise",)}, overrides=[f"finalise.gate={path}"])
    assert f"no stage of this preset declares: {name}; each counts as its mean" in caplog.text
    dialog_turn = turn("How tall?", candidate=Candidate("330 m", None), verification=Verification(p_yes=0.7))
    run(Finalise, [dialog_turn], context(settings))
    dialog_turn.close_stage("finalise", 0.0)
    assert dialog_turn.records[-1].checks["gate"] == Gate.load(path).probability({"p_yes": 0.7, name: 0.5})


def test_the_handbook_explains_each_declared_signal() -> None:
    page = (ROOT / "docs" / "calibration.md").read_text(encoding="utf-8")
    declared = [kind.name for stage in stage_names() for kind in stage_class(stage).signals]
    assert len(declared) == len({*declared}) >= len(SIGNALS)
    assert [name for name in declared if f"`{name}`" not in page] == []


def test_the_signals_of_a_turn() -> None:
    def hit(name: str, score: float) -> ImageHit:
        return ImageHit(0, score, "", (Entity(name),))

    dialog_turn = turn(
        "How tall?",
        candidate=Candidate("330 m", None, (math.log(0.5), 0.0), idk=0.1),
        verification=Verification(p_yes=0.7),
        consistent=False,
        chain=ChainOfVerification(0.8),
        evidence=(Evidence("a", "web", "t", score=0.4), Evidence("b", "web", "t", score=0.9)),
        entity=Entity("Eiffel Tower"),
        entity_score=0.6,
        image_hits=(hit("Eiffel Tower", 0.6), hit("Tokyo Tower", 0.45), hit("Big Ben", 0.3)),
    )
    assert {name: round(value, 6) for name, value in read_signals(dialog_turn).items()} == {
        "p_idk": 0.1, "p_yes": 0.7, "min_probability": 0.5, "mean_probability": 0.75, "agreement": 0.0, "chain_confidence": 0.8,
        "evidence_score": 0.9, "no_evidence": 0.0, "entity_score": 0.6, "no_entity": 0.0,
        "provided_evidence": 0.0,
    }  # fmt: skip
    dialog_turn.queries = ("How tall?", "How tall? (Eiffel Tower)")
    assert read_signals(dialog_turn)["entity_named"] == 1.0
    dialog_turn.queries = ("How tall?",)
    assert read_signals(dialog_turn)["entity_named"] == 0.0
    assert read_signals(turn("Who?")) == {"no_evidence": 1.0, "no_entity": 1.0, "provided_evidence": 0.0}
    assert read_signals(turn("Who?", needs_image=False))["no_entity"] == 0.0
    assert "no_entity" not in read_signals(turn("Who?", tools=Tools(image=False)))  # nobody looked for one


def test_a_sum_that_code_read_off_the_photo_needs_no_gate(tmp_path: Path) -> None:
    GATE.save(tmp_path / "gate.json")
    settings = FinaliseOptions(gate=str(tmp_path / "gate.json"))
    model_turn, computed = (
        turn("What does it come to?", candidate=Candidate("200", 0.9, idk=0.3, computed=is_computed))
        for is_computed in (False, True)
    )
    run(Finalise, [model_turn, computed], context(settings_from({"stages": ("finalise",), "finalise": settings})))
    assert (model_turn.answer, computed.answer) == (IDK, "200")


def test_provided_evidence_tells_no_cosines() -> None:
    """The research release passes names and pages; the placeholders that stand for their cosines must not reach the gate."""
    text = format_evidence(
        "How tall?", [{"score": 0.8, "entities": [{"entity_name": "Eiffel Tower"}, {"entity_name": "Tokyo Tower"}]}], []
    )
    dialog_turn = turn("What is this?", provided=parse_provided(text), candidate=Candidate("The Eiffel Tower", None))
    stages = {"select_entity": {"by": "rules"}, "finalise": {"abstain_unsure_name": True}}
    parts = context(settings_from({"stages": ("select_entity", "finalise"), **stages}))
    run_stages([dialog_turn], parts, ImageSearch, SelectEntity, Finalise)
    assert (dialog_turn.entity_name, dialog_turn.answer) == ("Eiffel Tower", "The Eiffel Tower")
    signals = dialog_turn.records[-1].signals
    assert signals["provided_evidence"].value == 1.0
    assert signals["no_entity"].value == 0.0
    assert signals.keys().isdisjoint({"entity_score", "entity_named"})


@pytest.mark.parametrize(("idk", "answer"), [(0.2, "330 m"), (0.3, IDK)])
def test_the_last_stage_gives_what_the_gate_lets_through(tmp_path: Path, idk: float, answer: str) -> None:
    """Without a verdict the probability is 0.62 at an idk of 0.2 and 0.38 at 0.3; the threshold lies at 0.6."""
    GATE.save(tmp_path / "gate.json")
    settings = FinaliseOptions(gate=str(tmp_path / "gate.json"), max_idk=0.0)  # which a gate takes the place of
    dialog_turn = turn("How tall?", candidate=Candidate("330 m", None, idk=idk))
    run(Finalise, [dialog_turn, turn("Who?")], context(settings_from({"stages": ("finalise",), "finalise": settings})))
    dialog_turn.close_stage("finalise", 0.0)
    assert dialog_turn.answer == answer
    decision = dialog_turn.records[0].decision
    assert decision is not None
    assert (
        decision.probability == dialog_turn.records[0].checks["gate"] == pytest.approx(GATE.probability({"p_idk": idk}))
    )
    assert decision.candidate == "330 m"
    assert ("sure, 60% needed" in str(decision)) == (answer == IDK)


@pytest.mark.parametrize(
    ("size", "own", "answer"),
    [((960, 1280), 0.7, IDK), ((960, 1280), 0.6, "330 m"), ((960, 1280), None, "330 m"), ((1280, 960), 0.7, "330 m")],
)
def test_photos_of_glasses_may_have_a_threshold_of_their_own(
    tmp_path: Path, size: tuple[int, int], own: float | None, answer: str
) -> None:
    """The probability is 0.62 and the threshold of other photos 0.6."""
    GATE.model_copy(update={"threshold_egocentric": own}).save(tmp_path / "gate.json")
    settings = FinaliseOptions(gate=str(tmp_path / "gate.json"))
    dialog_turn = turn("How tall?", size, candidate=Candidate("330 m", None, idk=0.2))
    run(Finalise, [dialog_turn], context(settings_from({"stages": ("finalise",), "finalise": settings})))
    dialog_turn.close_stage("finalise", 0.0)
    assert dialog_turn.answer == answer
    assert dialog_turn.records[0].decision is not None
    assert dialog_turn.records[0].decision.egocentric is (size == (960, 1280))


def test_a_probability_that_is_no_number_is_a_doubt(tmp_path: Path) -> None:
    huge = Gate(**{**GATE.model_dump(), "coefficients": ((1e308, -1e308),), "mean": (-9.0, -9.0)})
    assert math.isnan(huge.probability({"p_idk": 1.0, "p_yes": 1.0}))
    huge.save(tmp_path / "gate.json")
    dialog_turn = turn("How high is it?")
    dialog_turn.candidate = Candidate("330 metres", 0.9, idk=1.0)
    dialog_turn.verification = Verification(p_yes=1.0)
    settings = settings_from({"stages": ["finalise"], "finalise": {"gate": str(tmp_path / "gate.json")}})
    run(Finalise, [dialog_turn], context(settings))
    dialog_turn.close_stage("finalise", 0.0)
    assert dialog_turn.answer == IDK
    decision = dialog_turn.records[-1].decision
    assert decision is not None and "nan" in str(decision)
    assert decision.probability is None
