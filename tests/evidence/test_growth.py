"""Chunks grow to what is beside them on their page, within the budget of a prompt."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agents.evidence.chunks import chunk_structure
from agents.evidence.growth import open_page
from agents.evidence.passages import count_tokens
from agents.evidence.shown import select_chunks
from agents.search.hits import WebHit
from agents.turn import Evidence

PARTS = [f"Part {number} of this page says one thing." for number in range(8)]  # of about ten tokens each
FACT = Evidence("x" * 40, "kg", "A thing")
NAMES = "Marrowfen Tallowbeak Snorrel Dapplehorn Quibblewing Grumbold Pockwattle".split()


def chunks_of(parts: list[str], name: str = "Page", url: str = "u") -> list[Evidence]:
    text = "\n".join(f"## S{number}\n{part}" for number, part in enumerate(parts))
    return list(chunk_structure(WebHit(f"{url}_chunk_0", 0.5, name, parts[0], url, text), 100))


def numbers(chunk: Evidence) -> list[int]:
    return [number for number, part in enumerate(PARTS) if part in chunk.text]


def test_a_page_that_fits_is_shown_whole_as_one_passage() -> None:
    chunks = chunks_of(PARTS)
    [passage] = select_chunks([chunks[5], chunks[2]], 5, 1000)
    assert numbers(passage) == [*range(8)]
    assert passage.title == "Page" and passage.text.startswith("# S0\nPart 0") and "..." not in passage.text


def test_neighbours_come_first_and_the_budget_is_kept() -> None:
    chunks = chunks_of(PARTS)
    [passage] = select_chunks([chunks[4]], 5, 60)
    assert {3, 4, 5} <= {*numbers(passage)} < {*range(8)}
    assert count_tokens(passage) <= 60


def test_parts_that_are_apart_on_their_page_are_marked() -> None:
    chunks = chunks_of(PARTS)
    [passage] = select_chunks([chunks[6]], 5, 24)
    assert passage.text == f"# S0\n{PARTS[0]}\n...\n# S6\n{PARTS[6]}"


def test_further_chunks_come_before_what_is_far_from_the_best() -> None:
    one, other = chunks_of(PARTS), chunks_of([f"{part} Elsewhere." for part in PARTS], "Other", "v")
    first, fact, second = select_chunks([one[0], FACT, other[7]], 5, 90)
    assert (first.title, fact) == ("Page", FACT) and 7 in numbers(second)


def test_a_page_is_opened_where_it_has_the_words_of_a_question() -> None:
    parts = [
        f"The {name} is looked after by the team of the north house, which has been there for years." for name in NAMES
    ]
    chunks = chunks_of(parts)
    opened = open_page(chunks[0], 60, ["Who looks after Quibblewing?"])
    assert "Quibblewing" in opened.text and opened.page is None
    assert count_tokens(opened) <= 60
    assert open_page(chunks[0], 5000, ["anything"]).text.count("looked after") == len(parts)


def test_the_header_of_a_table_is_not_repeated_within_a_passage() -> None:
    rows = "\n".join(f"| Thing {number} | {number} m |" for number in range(12))
    page = f"| Name | Height |\n|---|---|\n{rows}"
    chunks = list(chunk_structure(WebHit("u_chunk_0", 0.5, "T", "| Name", "u", page), 100))
    [passage] = select_chunks([chunks[2]], 5, 1000)
    assert len(chunks) > 3 and "| Name |" in chunks[2].text
    assert passage.text == page


def test_other_chunks_are_shown_as_before() -> None:
    assert select_chunks((FACT, FACT, FACT), 5, 20) == (FACT, FACT)


@given(st.lists(st.integers(0, 15), min_size=1, max_size=12, unique=True), st.integers(30, 400))
def test_what_is_shown_never_exceeds_the_budget(places: list[int], tokens: int) -> None:
    chunks = [*chunks_of(PARTS), *chunks_of([f"{part} Elsewhere." for part in PARTS], "Other", "v")]
    passages = select_chunks([chunks[place] for place in places], 20, tokens)
    assert sum(map(count_tokens, passages)) <= tokens
    assert chunks[places[0]].text in passages[0].text
    assert len({passage.url for passage in passages}) == len(passages)
