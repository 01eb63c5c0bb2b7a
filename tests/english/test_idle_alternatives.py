"""The rules over English words only shrink: alternatives that no recorded turn needs may not become more."""

from __future__ import annotations

import importlib
import pkgutil
import re

import pytest

import agents.english
from tests.support.idle_alternatives import Recorder, Watch, split_alternatives
from tests.support.recorded_turns import apply_rules, list_texts

IDLE = {
    "agents.decision.answer_form": 33,
    "agents.english.answer_text": 38,
    "agents.english.bridging": 18,
    "agents.english.computation": 8,
    "agents.english.dates": 31,
    "agents.english.figure_spelling": 4,
    "agents.english.knowledge_conflict": 23,
    "agents.english.object_phrases": 49,
    "agents.english.plain_text": 41,
    "agents.english.printed_text": 7,
    "agents.english.quantities": 31,
    "agents.english.question_kinds": 37,
    "agents.english.references": 47,
    "agents.english.step_plans": 80,
    "agents.english.step_results": 16,
    "agents.english.step_rules": 39,
    "agents.english.thing_kinds": 3,
    "agents.methods.routing": 35,
    "agents.texts.injection": 355,
    "agents.texts.orders": 228,
    "agents.texts.refusals": 217,
}
"""Idle alternatives and words of each module. A number may only become smaller."""


@pytest.fixture(scope="module")
def idle() -> dict[str, list[str]]:
    for module in IDLE:
        importlib.import_module(module)
    watch = Watch(IDLE)
    with watch:
        apply_rules()
    text = "\n".join(list_texts()).lower()
    counts = watch.list_idle(set(re.findall(r"\w+", text)), text)
    return {module: [f"{own!r} of {group[:60]!r}" for group, own in keys] for module, (keys, _) in counts.items()}


@pytest.mark.parametrize("module", IDLE)
def test_idle_alternatives_do_not_become_more(module: str, idle: dict[str, list[str]]) -> None:
    found = len(idle[module])
    assert found <= IDLE[module], (
        f"{module} has {found} alternatives that no recorded turn needs, {IDLE[module]} were there: a rule needs a recorded turn "
        f"that changes by it (CONTRIBUTING.md). Idle are, among others: {'; '.join(idle[module][:40])}"
    )
    assert found == IDLE[module], f"{module} has only {found} idle alternatives now: write {found} in IDLE"


def test_every_module_of_rules_is_counted() -> None:
    modules = {f"agents.english.{each.name}" for each in pkgutil.iter_modules(agents.english.__path__)}
    assert modules <= IDLE.keys()
    assert {module for module in IDLE if module.startswith("agents.english.")} <= modules


def test_alternatives_are_those_of_groups_that_have_several() -> None:
    own = [one.key[1] for one in split_alternatives(r"(?:a\||b(?P<x>c|d))[|)](?!e|f)(?:g)")]
    assert sorted(own) == sorted(["a\\|", "b(?P<x>c|d)", "c", "d", "e", "f"])


def test_an_alternative_is_needed_if_a_match_goes_through_it() -> None:
    recorder = Recorder(re.compile(r"\b(?:red|blue)\b(?! (?:sky|sea|tea)\b)|never"))
    recorder.search("a red ball")
    recorder.search("the red sea")
    recorder.search("a blue ball")
    needed = {own for _, own in recorder.find_needed()}
    assert needed == {"red", "blue", r"\b(?:red|blue)\b(?! (?:sky|sea|tea)\b)", "sea"}
