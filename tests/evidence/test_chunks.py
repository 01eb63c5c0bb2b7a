import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.search.index_sources import split_text

TEXT = st.lists(
    st.sampled_from(["Tower", "is tall.", "Why?", "“Yes.”", "\n", "\n\n", "a", "1889", "(Paris.)"]), max_size=60
).map(" ".join)


@given(text=TEXT, words=st.integers(1, 12))
def test_no_word_is_lost_or_doubled_and_no_piece_is_too_long(text: str, words: int) -> None:
    pieces = split_text(text, words)
    assert " ".join(pieces).split() == text.split()
    assert all(0 < len(piece.split()) <= words for piece in pieces)


def test_a_text_that_fits_stays_as_it_is() -> None:
    assert split_text("  One.\n\nTwo &amp; three.\n- four ") == ["One.\n\nTwo &amp; three.\n- four"]


def test_borders_are_paragraphs_before_sentences() -> None:
    text = "One two. Three four.\n\nFive six. Seven eight.\n\nNine."
    assert split_text(text, 4) == ["One two. Three four.", "Five six. Seven eight.", "Nine."]
    assert split_text(text, 5) == ["One two. Three four.", "Five six. Seven eight.\n\nNine."]
    assert split_text(text, 2) == ["One two.", "Three four.", "Five six.", "Seven eight.", "Nine."]


def test_lines_of_a_list_stay_lines() -> None:
    assert split_text("- a b\n- c d\n- e f", 6) == ["- a b\n- c d", "- e f"]


def test_a_sentence_without_end_is_cut_at_words() -> None:
    assert split_text("a b c d e", 2) == ["a b", "c d", "e"]


def test_empty_text_gives_no_piece() -> None:
    assert split_text(" \n ") == []


@pytest.mark.parametrize("sentence", ["这座磨坊建于一八七四年。", "この水車小屋は古い。", "โรงสีเก่าสร้างเมื่อปี", "x" * 10])
def test_texts_without_blanks_are_cut_to_what_the_encoder_sees(sentence: str) -> None:
    text = sentence * 2_000
    pieces = split_text(text)
    assert "".join(pieces) == text
    assert max(map(len, pieces)) <= (2_500 if sentence.isascii() else 410)


def test_a_very_long_line_is_cut_between_words() -> None:
    text = " ".join(f"word{number}" for number in range(50_000))
    pieces = split_text(f"Before.\n{text}\nAfter.")
    assert " ".join(pieces).split() == ["Before.", *text.split(), "After."]
    assert len(pieces) < 300
