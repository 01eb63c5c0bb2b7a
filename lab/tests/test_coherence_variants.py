"""The coherence benchmark: one search for all variants, each filters and reads the same evidence."""

from __future__ import annotations

from typing import Any

import pytest

from agents.settings.presets import settings_from
from evaluation.records import QuestionTurn, Session
from lab.benchmarks.coherence_variants import build_table, compare_variants, has_accept_form, word_f1
from mini_crag_mm.loader import AskedTurn
from tests.agent.scripted import ScriptedChat, ScriptedPipeline, context, turn

PAGES = {"Tower": "the tower is 330 m tall", "Soup": "soup is hot"}


class Letters:
    """Embeds a text as the counts of some letters."""

    name = "letters"

    def encode(self, texts: Any) -> Any:
        import numpy as np

        return np.asarray([[text.lower().count(letter) + 0.01 for letter in "aetos"] for text in texts])


def test_words_and_forms_by_hand() -> None:
    """Answer: tower, 330, m, tall; truth: 330, m: 2 shared of 4 and 2, so F1 = 2 * 2 / 6."""
    assert word_f1("The tower is 330 m tall.", ["330 m", "nothing alike"]) == pytest.approx(4 / 6)
    assert word_f1("", ["330 m"]) == 0.0
    assert has_accept_form("It is 1,083 ft high", ["330 m", "1083 ft"])
    assert not has_accept_form("It is 1330 m high", ["330 m"])


def test_all_variants_read_what_was_searched_for_once() -> None:
    preset = {
        "stages": ["understand", "web_search", "evidence", "coherence", "answer", "finalise"],
        "coherence": {"k": 1},
    }
    base_settings = settings_from(preset)
    settings = {
        "without": base_settings.without(["coherence"]),
        "pairwise": base_settings,
        "first": settings_from(preset, overrides=["coherence.second=none"]),
    }
    pipeline = ScriptedPipeline({}, PAGES)
    question_turn = QuestionTurn("i", 0, "How tall is the tower?", "It is 330 m tall.")
    question = AskedTurn(Session("s", (question_turn,)), question_turn, None, (), ("330 m",), {"source": "both"})
    parts = context(base_settings, pipeline, chat=ScriptedChat(lambda _: "330 m"), text_encoder=Letters())
    measurements = compare_variants(
        [(question, turn(question_turn.query, None))],
        settings,
        models=parts.models,
        search=parts.search,
        prompts=parts.prompts,
    )
    assert len(pipeline.queries) == 1
    assert {label: items[0].in_evidence for label, items in measurements.items()} == dict.fromkeys(settings, True)
    assert measurements["pairwise"][0].judged.correct
    table = build_table(measurements)
    assert table.headings[:4] == (
        "Scoring Strategy",
        "Multi Modality F1",
        "Multi Modality EM",
        "Multi Modality evidence",
    )
    assert [row[0] for row in table.rows] == list(settings)
    assert table.rows[0][-1] == ""
