"""The search router: features of hand-written drafts, table 1 as rules, trained weights, and the stage."""

import json
import math
from pathlib import Path

import pytest

from agents.asking.readers.verdicts import parse_flags
from agents.base.linear_head import HeadError
from agents.methods.routing import FEATURE_NAMES, TraceFeatures, TrainedRouter, compute_features, route_by_rules
from agents.models.base import ChatReply, ChatRequest
from agents.settings.presets import Settings, settings_from
from agents.stages.route import RouteStage
from agents.turn import Draft, Route
from tests.agent.scripted import ScriptedChat, context, run_stages, turn

OBJECT = "The exact name of the object that the question is about is"
CAR = Draft(
    (f"{OBJECT} a Ford Model T.", "It was built from 1908."), "Ford Model T", "The Ford Model T was built from 1908."
)
SIGN = Draft((f"{OBJECT} a sign.", "It reads NOTAUSGANG."), "sign", 'The sign says "NOTAUSGANG".')
LOST = Draft((f"{OBJECT} unknown.", "I cannot determine the café that the question is about."), None, "I don't know")
LOST_BUT_ANSWERED = Draft(("I cannot determine the model of the car.",), None, "It was built in 1990.")


def on(features: TraceFeatures) -> set[str]:
    return {name for name, value in features.model_dump().items() if value and not name.endswith("probability")}


def test_a_sound_draft_raises_no_flag() -> None:
    features = compute_features("When did this car go into production?", CAR, "vehicle")
    assert on(features) == {
        "has_draft", "answer_number", "answer_named", "answer_words", "object_named", "object_proper", "asks_open_world", "steps",
    }  # fmt: skip
    assert (features.steps, features.answer_words) == (2, 8)


def test_answerability_flags() -> None:
    features = compute_features("Who founded this cafe?", LOST, "other")
    assert features.answer_unknown and features.reasoning_unknown and not features.object_named


@pytest.mark.parametrize(
    "answer",
    [
        "", "   ", "What car is this?", "The car is <specific_object_name>.", "which car is this",
    ],
)  # fmt: skip
def test_failure_patterns(answer: str) -> None:
    draft = Draft(("It is a car.",), "car", answer)
    assert compute_features("Which car is this?", draft, None).failure_pattern == 1


@pytest.mark.parametrize(
    "answer",
    [
        "I don't know",
        "i do not know.",
        "I don\u2019t know",
        "It is unclear.",
        "That is not visible.",
        "I'm sorry, but I can't help with that.",
    ],
)
def test_ignorance_in_any_spelling(answer: str) -> None:
    assert compute_features("Which car is this?", Draft((), None, answer), None).answer_unknown == 1


def test_uncertainty_is_counted_and_capped() -> None:
    draft = Draft(
        ("It might be a Ford.", "It looks like it, perhaps, or possibly not."), "Ford", "It is probably a Ford."
    )
    assert compute_features("Which car is this?", draft, None).speculation == 3
    assert (
        compute_features(
            "Who opened it in May 1937?", Draft((), "bridge", "It opened on 27 May 1937."), None
        ).speculation
        == 0
    )
    typical = Draft(("Cars of this kind typically have four cylinders.",), "car", "It has four cylinders.")
    assert compute_features("How many cylinders?", typical, None).fallback == 1


def test_a_number_of_the_question_is_not_an_answer() -> None:
    draft = Draft((), "coins", "These 3 coins are worth 3 dollars.")
    assert compute_features("What are these 3 coins worth?", draft, None).answer_number == 0
    assert compute_features("What are these coins worth?", draft, None).answer_number == 1


def test_token_probabilities() -> None:
    draft = Draft(("Step.",), "car", "A Ford.", (math.log(0.5), math.log(0.9), 0.0))
    features = compute_features("Which car is this?", draft, None)
    assert features.min_probability == pytest.approx(0.5)
    assert features.mean_probability == pytest.approx(0.8)
    assert compute_features("Which car is this?", CAR, None).has_probabilities == 0


@pytest.mark.parametrize(
    ("question", "draft", "route"),
    [
        ("What is written on these umbrellas?", SIGN, "direct"),  # the three examples of table 1
        ("In which year did the car on the right begin production?", CAR, "verify"),
        ("Who founded this cafe?", LOST, "rag"),
        ("When was this car built?", LOST_BUT_ANSWERED, "rag"),
        ("When was this car built?", None, "rag"),
        ("What is written on these umbrellas?", LOST, "rag"),
        ("What is this car worth today?", CAR, "rag"),
        ("When was this car built?", Draft(("It is an old car.",), None, "It was built in 1908."), "rag"),
        ("When was this car built?", Draft(("Such cars typically date from 1908.",), "car", "In 1908."), "rag"),
        ("When was this car built?", Draft(("It might be a Ford.",), "Ford", "It was built in 1908."), "verify"),
        ("Which car is this?", CAR, "verify"),
        ("What does the sign say?", Draft(("It seems to read EXIT.",), "sign", "It says EXIT."), "verify"),
    ],
)
def test_table_1(question: str, draft: Draft | None, route: Route) -> None:
    assert route_by_rules(compute_features(question, draft, None)) == route


def weights(**changes: object) -> dict[str, object]:
    return {
        "features": ["answer_unknown", "asks_text"],
        "classes": ["direct", "verify", "rag"],
        "coefficients": [[-9.0, 4.0], [-9.0, -4.0], [9.0, 0.0]],
        "intercept": [0.0, 1.0, 0.0],
        **changes,
    }


def test_a_trained_router_survives_its_file(tmp_path: Path) -> None:
    path = tmp_path / "heads" / "router.json"
    TrainedRouter.model_validate(weights()).save(path)
    router = TrainedRouter.load(path)
    routes = [
        router.route(compute_features(question, draft, None))
        for question, draft in [
            ("What does the sign say?", SIGN),
            ("When was this car built?", CAR),
            ("When was this car built?", LOST),
            ("What does the sign say?", None),
        ]
    ]
    assert routes == ["direct", "verify", "rag", "rag"]
    assert router == TrainedRouter.model_validate(weights())


@pytest.mark.parametrize(
    "content",
    [
        json.dumps(weights(features=["answer_unknown", "no_such_feature"])),
        json.dumps(weights(classes=["direct", "verify", "elsewhere"])),
    ],
)
def test_a_malformed_router_file_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "router.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(HeadError, match=r"router\.json"):
        TrainedRouter.load(path)


@pytest.mark.parametrize(
    ("reply", "flags"),
    [
        ("External: yes\nCurrent: no", (True, False)),
        ("**External**: No\n**Current**: No", (False, False)),
        ("1. External: yes (it takes history)\n2. Current: no", (True, False)),
        ("Sure!\nExternal: [yes]\nCurrent: [yes]", (True, True)),
        ("yes\nno", (True, False)),
        ("External: yes", (True, None)),
        ("External: maybe\nCurrent:", (None, None)),
        ("I like umbrellas.", (None, None)),
        ("", (None, None)),
    ],
)
def test_flags_are_read_from_untidy_replies(reply: str, flags: tuple[bool | None, bool | None]) -> None:
    assert parse_flags(reply) == flags


def settings(**route: object) -> Settings:
    return settings_from({"stages": ("route", "finalise"), "route": route})


def test_the_stage_fills_route_and_flags_by_rules() -> None:
    read, priced, lost = (
        turn("What does the sign say?"),
        turn("What does this car cost right now?"),
        turn("Who built it?"),
    )
    read.draft, priced.draft = SIGN, CAR
    run_stages([read, priced, lost], context(settings()), RouteStage)
    assert [dialog_turn.route for dialog_turn in (read, priced, lost)] == ["direct", "rag", "rag"]
    assert [(dialog_turn.needs_external, dialog_turn.real_time) for dialog_turn in (read, priced, lost)] == [
        (False, False), (True, True), (True, False),
    ]  # fmt: skip
    notes = read.records[0].notes
    assert notes["route"] == "direct" and tuple(notes["features"]) == FEATURE_NAMES


def test_the_stage_asks_a_small_model_once_for_all_turns() -> None:
    def say(request: ChatRequest) -> str | ChatReply:
        prompt = request.messages[-1].content
        if "broken" in prompt:
            return ChatReply("", "error", error="boom")
        return "External: no\nCurrent: yes" if "colour" in prompt else "what?"

    chat = ScriptedChat(say)
    turns = [turn("Is this colour in fashion?"), turn("Who built it?"), turn("Is this broken today?")]
    run_stages(turns, context(settings(flags="model"), small_chat=chat), RouteStage)
    assert chat.batches == [3]
    assert all(not message.images for request in chat.requests for message in request.messages)
    assert [(dialog_turn.needs_external, dialog_turn.real_time) for dialog_turn in turns] == [
        (False, True),
        (True, False),
        (True, True),
    ]


def test_without_a_small_model_the_rules_stand() -> None:
    dialog_turn = turn("Who built it?")
    run_stages([dialog_turn], context(settings(flags="model")), RouteStage)
    assert (dialog_turn.route, dialog_turn.needs_external, dialog_turn.real_time) == ("rag", True, False)
    assert "small_chat" in (dialog_turn.error or "")


def test_a_trained_router_named_by_the_settings_is_used(tmp_path: Path) -> None:
    path = tmp_path / "router.json"
    always_verify = weights(coefficients=[[0.0, 0.0]] * 3, intercept=[0.0, 1.0, 0.0])
    path.write_text(json.dumps(always_verify), encoding="utf-8")
    dialog_turn = turn("What does the sign say?")
    dialog_turn.draft = SIGN
    run_stages([dialog_turn], context(settings(trained=str(path))), RouteStage)
    assert dialog_turn.route == "verify"


def test_a_missing_trained_router_costs_no_answer(tmp_path: Path) -> None:
    dialog_turn = turn("What does the sign say?")
    run_stages([dialog_turn], context(settings(trained=str(tmp_path / "nothing.json"))), RouteStage)
    assert dialog_turn.route == "rag"
    assert "nothing.json" in (dialog_turn.error or "")
