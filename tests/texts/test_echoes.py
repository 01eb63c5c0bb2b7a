"""An answer that repeats its prompt: every sentence of every template is one, no answer of the mini set is."""

from __future__ import annotations

import json
import re

import pytest

from agents.asking.prompts import PROMPT_PARTS, Prompt, PromptLibrary
from agents.profiles.profile import PROMPTS, ROOT
from agents.texts.echoes import repeats_prompt

TEMPLATES = sorted(path for path in PROMPTS.rglob("*.j2") if path.parent != PROMPT_PARTS)
"""Parts are no templates: their words are those of the templates that include them."""
FROM_EVIDENCE = Prompt(PROMPTS / "answer_with_evidence.j2").wording
REASONED = Prompt(PROMPTS / "answer_reasoned.j2").wording


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: str(path.relative_to(PROMPTS)))
def test_no_line_of_a_template_is_an_answer(path: object) -> None:
    wording = PromptLibrary(PROMPTS)[str(path.relative_to(PROMPTS).with_suffix(""))].wording  # type: ignore[attr-defined]
    lines = [line for text in wording for line in text.splitlines() if len(re.findall(r"\w+", line)) > 2]
    assert [line for line in lines if not repeats_prompt(line, wording) and not re.search(r"\d", line)] == []


@pytest.mark.parametrize(
    "answer",
    [
        'A picture search took the photo to show "Berlin Cathedral". It may be another thing.',
        "A picture search took the photo to show the Eiffel Tower.",
        "It may be another thing.",
        "The conversation so far:",
        "A wallet (4%), a jigsaw puzzle (4%). The conversation so far: user: What place is this?",
        "If the information does not answer the question, reply exactly",
    ],
)
def test_what_was_filled_in_makes_no_answer_of_a_line(answer: str) -> None:
    assert repeats_prompt(answer, FROM_EVIDENCE)


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "Yes",
        "Information",
        "Berlin Cathedral",
        "The photo shows Berlin Cathedral, which was finished in 1905.",
        "It may be another thing, because the cathedral of Berlin has a dome of 98 metres and this has none at all.",
    ],
)
def test_an_answer_with_words_of_its_own_is_one(answer: str) -> None:
    assert not repeats_prompt(answer, FROM_EVIDENCE)


def test_the_fact_of_an_example_may_be_true() -> None:
    assert not repeats_prompt("Mount Fuji is 3,776 metres high.", REASONED)


def test_a_prompt_says_what_the_one_that_it_continues_says() -> None:
    assert set(FROM_EVIDENCE) < set(Prompt(PROMPTS / "answer_verdict.j2").wording)


def test_no_right_answer_of_a_model_repeats_a_prompt() -> None:
    rows = map(json.loads, (ROOT / "mini_crag_mm" / "labelled_answers.jsonl").read_text(encoding="utf-8").splitlines())
    answers = [row["agent_response"] for row in rows if row["label"] == "correct"]
    library = PromptLibrary(PROMPTS)
    wording = [text for path in PROMPTS.glob("*.j2") for text in library[path.stem].wording]
    assert answers and not [answer for answer in answers if repeats_prompt(answer, wording)]
