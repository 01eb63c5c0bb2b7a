"""No expression and no reader takes quadratic time: a regular expression holds the interpreter, so nothing else runs meanwhile."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest

import agents
from agents.asking.ask import MAX_READ, read
from agents.models.base import ChatReply
from tests.property.expressions import FEW_UNITS, UNITS, Expression, expressions, inputs
from tests.property.fuzzing import AT_LENGTH, grows_like_a_square
from tests.property.test_texts import WORK
from tests.support.read_replies import list_forms

OWN_FILES = {"agents.profiles.profile._VARIABLE"}  # applied to profiles alone, which the machine's user writes
EXPRESSIONS = [each for each in expressions(agents) if each.name not in OWN_FILES]
BEGINNINGS = ("", "1. ", '{"queries": ["')

FORMS = {form.name: form for form in list_forms()}

at_length = pytest.mark.skipif(not AT_LENGTH, reason="takes minutes: make hostile runs it")
linear = pytest.mark.hostile("long texts against expressions and readers")


def test_expressions_and_forms_are_found() -> None:
    names = {each.name for each in EXPRESSIONS}
    assert {"agents.asking.readers.verdicts._NUMBERING", "agents.english.step_plans._CONDITIONS[0]"} <= names
    assert {"answer", "verdict", "flags", "plan", "draft", "four steps", "JSON: queries"} <= set(FORMS)


@pytest.mark.parametrize("pattern", [r"a+b", r"\s*;\s*"])
def test_quadratic_expressions_are_noticed(pattern: str) -> None:
    """Several tries: a machine that is busy for a moment hides a square."""
    expression = Expression("bad", re.compile(pattern, re.MULTILINE), frozenset())
    assert any(grows_like_a_square(expression.work, make) for _ in range(5) for make in inputs(expression.pattern))


@at_length
@linear
@pytest.mark.parametrize("expression", EXPRESSIONS, ids=lambda each: each.name.removeprefix("agents."))
def test_time_of_an_expression_grows_with_the_text(expression: Expression) -> None:
    slow = [make(8) for make in inputs(expression.pattern) if grows_like_a_square(expression.work, make)]
    assert not slow, f"{expression.pattern.pattern!r}, applied by {sorted(expression.methods)}"


@at_length
@linear
@pytest.mark.parametrize("name", FORMS)
def test_time_of_a_reader_grows_with_the_reply(name: str) -> None:
    form = FORMS[name]
    for beginning in BEGINNINGS:
        for unit in FEW_UNITS if beginning else UNITS:
            assert not grows_like_a_square(
                lambda text: read(form, ChatReply(text, "length")),
                lambda length, head=beginning, unit=unit: head + unit * (length // len(unit)),  # type: ignore[misc]
            ), (beginning, unit)


@pytest.mark.parametrize("name", FORMS)
def test_a_reader_sees_the_beginning_of_a_reply(name: str) -> None:
    replies: list[ChatReply] = []
    form = FORMS[name]

    def see(reply: ChatReply) -> Any:
        replies.append(reply)
        return form.read(reply)

    answer = read(dataclasses.replace(form, read=see), ChatReply("a " * 50_000, "stop"))
    assert len(replies[0].text) == MAX_READ
    assert replies[0].finish_reason == "length", "the rest may have said the opposite"
    assert answer.reply.finish_reason == "stop" and len(answer.text) == 100_000, "the record keeps what came"


@at_length
@linear
@pytest.mark.parametrize("name", WORK)
def test_time_of_a_text_function_grows_with_the_text(name: str) -> None:
    for unit in FEW_UNITS:
        assert not grows_like_a_square(WORK[name], lambda length, unit=unit: unit * (length // len(unit))), unit  # type: ignore[misc]
