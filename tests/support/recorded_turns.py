"""Put the recorded turns of the mini set through the rules over English words.

Recorded are the questions of both splits, their reference answers, the answers and plans of models that the repository keeps, and the
orders and pages of the tests of injection. Rules are judged by what they do with these, not with phrases that somebody made up.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import yaml

from agents.base_agent import Message
from agents.decision.answer_form import find_misfit
from agents.english import bridging, knowledge_conflict, object_phrases, question_kinds, references, step_rules
from agents.english.computation import ComputationError
from agents.english.step_plans import complete_plan, parse_plan
from agents.english.step_results import conclude
from agents.methods.routing import compute_features
from agents.profiles.profile import ROOT
from agents.search.hits import Entity
from agents.texts.injection import gives_orders, neutral
from agents.texts.orders import orders_in, rests_on_orders
from agents.texts.refusals import refuses
from agents.turn import IDK, Draft
from evaluation.judge.rule_judge import RuleJudge
from evaluation.records import JudgeItem
from mini_crag_mm.content_models import load_content
from mini_crag_mm.loader import SET, read_kg, read_lines, read_pages
from tests.support.injections import load_cases

INJECTION = ROOT / "tests" / "injection"
PLANS = ROOT / "tests" / "english" / "recorded_plans.jsonl"
REPLIES = ROOT / "tests" / "agent" / "real_replies.jsonl"
LABELLED = ("labelled_answers.jsonl", "labelled_long_answers.jsonl")


@dataclass(frozen=True)
class RecordedTurn:
    """A question with the dialog before it, its answers, and what the photo shows."""

    id: str  # of the question, or of the dialog with the turn's number: "mon_m001#2"
    query: str
    history: tuple[Message, ...]
    entity: Entity | None
    answers: tuple[str, ...]  # the reference, and those of presets

    @cached_property
    def question(self) -> str:
        """The question, made to stand alone."""
        return references.resolve(self.query, self.history).question


@cache
def load_turns() -> tuple[RecordedTurn, ...]:
    """Load the turns of both splits, dialogs with the reference answers as their history."""
    content, saved = load_content(SET.content), _load_answers()
    graph = {
        image["image"]: image["entities"][0] for split in ("validation", "public_test") for image in read_kg(split)
    }  # type: ignore[arg-type]
    entities = {
        name: Entity(graph[f"photos/{name}.webp"]["entity_name"], graph[f"photos/{name}.webp"]["entity_attributes"])
        for name in content.entities
        if f"photos/{name}.webp" in graph
    }
    turns: list[RecordedTurn] = []
    for item in content.list_items():
        history: list[Message] = []
        shown: Entity | None = None
        asked = getattr(item, "turns", (item,))
        for number, turn in enumerate(asked):
            shown = entities.get(turn.entity or "", shown)
            name = item.id if len(asked) == 1 else f"{item.id}#{number}"
            answers = dict.fromkeys((turn.answer, *saved.get(turn.query, ())))
            turns.append(RecordedTurn(name, turn.query, tuple(history), shown, tuple(answers)))
            history += [{"role": "user", "content": turn.query}, {"role": "assistant", "content": turn.answer}]
    return tuple(turns)


@cache
def _turns_by_id() -> dict[str, RecordedTurn]:
    return {turn.id: turn for turn in load_turns()}


def find_turn(name: str) -> RecordedTurn:
    """Return the turn of an id."""
    return _turns_by_id()[name]


def _load_answers() -> dict[str, list[str]]:
    """Load the answers that were recorded, by their question."""
    answers: dict[str, list[str]] = {}
    files = [*sorted(SET.answers.glob("*full_pages/*/*/response.jsonl")), *(SET.root / name for name in LABELLED)]
    for row in (row for file in files for row in read_lines(file)):
        answers.setdefault(row["query"], []).append(row["agent_response"])
    return answers


def load_orders() -> list[str]:
    """Load the sentences of the tests of injection: orders, and what only sounds like one."""
    orders = yaml.safe_load((INJECTION / "injected_orders.yaml").read_text(encoding="utf-8"))
    cases = [case.text for case in load_cases()]
    kinds = ("orders", "statements")
    return [
        *(str(one["text"] if isinstance(one, dict) else one) for kind in kinds for one in orders.get(kind, ())),
        *cases,
    ]


def list_texts() -> Iterator[str]:
    """Yield the questions, answers, names and attributes of the recorded turns."""
    for turn in load_turns():
        yield turn.query
        yield from turn.answers
        if turn.entity is not None:
            yield f"{turn.entity.name} {json.dumps(turn.entity.attributes, ensure_ascii=False)}"


def apply_rules() -> None:
    """Call the rules over words as the stages do, for every recorded turn."""
    for turn in load_turns():
        references.points_at_picture(turn.query)
        references.resolve(turn.query, turn.history)
        references.resolve(turn.query, [_forget(message) for message in turn.history])
        for question in dict.fromkeys((turn.query, turn.question)):
            _ask_about(question)
            bridging.write_hop_questions(question, turn.entity)
        for answer in turn.answers:
            _judge(turn, answer)
    for row in read_lines(PLANS):
        _follow(row)
    for row in read_lines(REPLIES):
        refuses(row["reply"])
    for sentence in load_orders():
        gives_orders(sentence)
        neutral(sentence)
        orders_in(sentence)
    for page in read_pages()[::10]:
        neutral(page["page_snippet"])


def _forget(message: Message) -> Message:
    return message if message["role"] == "user" else {"role": "assistant", "content": IDK}


def _ask_about(question: str) -> None:
    question_kinds.classify_question(question)
    question_kinds.is_about_several(question)
    question_kinds.asks_yes_or_no(question)
    question_kinds.is_about_packaged(question)
    object_phrases.extract_object_phrases(question, 5)
    object_phrases.find_pointed_phrase(question)
    object_phrases.find_position(question)
    step_rules.needs_steps(question)
    step_rules.mentions_printed_text(question)


def _follow(row: dict[str, Any]) -> None:
    """Complete and compute a recorded plan."""
    plan = complete_plan(parse_plan(row["reply"]), row["question"], row["things"], row["text"])
    if plan is not None and "facts" in row:
        with suppress(ComputationError):
            conclude(row["question"], plan, row["facts"], row["things"])


def _judge(turn: RecordedTurn, answer: str) -> None:
    if not refuses(answer):
        find_misfit(turn.question, answer)
        rests_on_orders(answer, turn.question, [(turn.entity.name if turn.entity else "", turn.answers[0])])
    knowledge_conflict.is_same_answer(turn.answers[0], answer, turn.question)
    knowledge_conflict.find_negations(answer)
    RuleJudge().judge(JudgeItem(turn.question, turn.answers[0], answer))
    compute_features(turn.question, Draft((turn.answers[0],), None, answer), None)
