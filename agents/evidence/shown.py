"""Amount of evidence in a prompt. Every prompt with evidence takes it from here.

| prompts of | show | bounded by ``limits.evidence_tokens`` |
|---|---|---|
| ``answer``, ``dual_answer``, ``modality_answers`` | the best ``k`` chunks, an option of the stage | together |
| ``steps`` | text of the photo, and the best ``FACT_CHUNKS`` chunks of the step | together |
| ``grounded_answer`` | the best ``k`` chunks; after a search for missing facts in turn with the best ``FACT_CHUNKS`` of each | together |
| ``search_agent`` | the results of its searches, the newest first | together |
| ``verify``, ``cross_check``, ``chain_of_verification``, ``consistency`` | what the answer was made from (``Turn.shown``) | with it |
| ``isolated_answers``, ``reconcile`` | the same | with it |
| ``entries_answer``, ``choose_entry``, ``entry_answer``, ``four_steps`` | ``entries.k`` entries (``cut_entry``) | in equal shares |
| ``cited_answer``, ``knowledge``, ``cite`` | the best ``DOCUMENTS`` chunks, numbered | no: citations need whole documents |
| ``relevance`` | one chunk | no |

How many there are to choose from is said by the rerankers (``rerank.k``, ``two_stage_rerank.k``, ``documents.k``), and how long a chunk is
by ``evidence.chunk_characters``. Chunks of pages cut along their structure (``evidence.chunking``) grow to what is beside them on the page,
until the budget is used (``agents.evidence.growth``): then a page is one passage, with one number.
"""

from collections.abc import Sequence
from dataclasses import replace

from agents.evidence.growth import grow
from agents.evidence.passages import CHARACTERS_PER_TOKEN, PICTURE_KEY, count_tokens, format_passage
from agents.texts.injection import without_special_tokens
from agents.texts.text import cut_words, format_attribute
from agents.turn import Evidence

DEFAULT_TOKENS = 3000
"""Budget for texts that have to be cut somewhere, such as a whole page, under a profile that names none."""

FACT_CHUNKS = 6
"""Chunks for a single fact: a step of a plan, or a fact missing from an answer."""

PASSAGE_CHARACTERS = 400
"""Characters of an entity's ranked attributes in one passage: as long as a chunk of a page where those are cut at sentences."""

DOCUMENTS = 15
"""Documents of an answer with citations: groundedness is best there (MAVIS, figure 3); N queries of K = 5 documents bring no more."""

_MIN_ENTRY_TOKENS = 200  # however many share a budget: less says too little of a thing to tell it from others
_MAX_ENTRY_TOKENS = 4500  # as in the code of CoRe-MMRAG's authors


def select_chunks(
    chunks: Sequence[Evidence], k: int, tokens: int | None, first: Sequence[Evidence] = ()
) -> tuple[Evidence, ...]:
    """Return the chunks that a prompt shows: at most ``k`` of those ranked, within a budget of tokens.

    Chunks of pages cut along their structure grow until it is used (``grow``). Attributes that belong into one passage count as one chunk
    (``join_attributes``), so that they leave room for pages.

    Args:
        chunks: Ranked chunks, best first.
        k: How many of them are shown.
        tokens: Budget of all chunks of the prompt; None: no budget.
        first: Chunks before them, not counted by ``k``.
    """
    selection = (*first, *join_attributes(chunks)[:k])
    if tokens is None or all(chunk.page is None for chunk in selection):
        return within_tokens(selection, tokens)
    return within_tokens(grow(selection, tokens), tokens)


def join_attributes(chunks: Sequence[Evidence]) -> list[Evidence]:
    """Join the ranked attributes of each entity into one passage, at the place of the best.

    The passage begins with what the photo shows, if a chunk says it. It has as many attributes, best first, as go into
    ``PASSAGE_CHARACTERS``. Chunks without a ``value`` stay as they are.
    """
    groups: dict[tuple[str, str], list[Evidence]] = {}
    for chunk in chunks:
        if chunk.value is not None:
            groups.setdefault((chunk.title, chunk.url), []).append(chunk)
    passages = {group[0]: _join(group) for group in groups.values()}
    return [passages.get(chunk, chunk) for chunk in chunks if chunk.value is None or chunk in passages]


def _join(attributes: Sequence[Evidence]) -> Evidence:
    text = ""
    for chunk in sorted(attributes, key=lambda chunk: chunk.key != PICTURE_KEY):
        key, value = chunk.key or "", chunk.value or ""
        added = value if key == PICTURE_KEY else f"{format_attribute(key, value.rstrip('.'))}."
        if text and len(text) + 1 + len(added) > PASSAGE_CHARACTERS:
            break
        text = f"{text} {added}".lstrip()
    # A mark of a message may come about where two texts meet, each harmless by itself.
    return replace(attributes[0], text=without_special_tokens(text), key=None, value=None)


def within_tokens(chunks: Sequence[Evidence], tokens: int | None) -> tuple[Evidence, ...]:
    """Return the first chunks that fit into a budget of about ``tokens`` tokens; all of them without a budget.

    The first one that does not fit is cut if at least half of the budget is left for it, so at least one is returned.
    """
    if tokens is None:
        return tuple(chunks)
    selection: list[Evidence] = []
    remaining = tokens
    for chunk in chunks:
        num_tokens = count_tokens(chunk)
        if num_tokens > remaining:
            # A whole context would otherwise be lost behind a short chunk. Once half of the budget is spent, the rest stays empty, as
            # in the prompts that the gate of ``best`` was fitted to: its chunks are shorter than half of any profile's budget.
            if 2 * remaining >= tokens:
                selection.append(_cut_chunk(chunk, remaining))
            break
        selection.append(chunk)
        remaining -= num_tokens
    return tuple(selection)


def select_documents(chunks: Sequence[Evidence]) -> tuple[Evidence, ...]:
    """Return the chunks that prompts with citations show, numbered from 1 in this order."""
    return tuple(chunks[:DOCUMENTS])


def cut_entry(text: str, entries: int, tokens: int | None) -> str:
    """Cut the text of an entry, between words, to its share of a budget of tokens that so many entries have, if there is one."""
    longest = _MAX_ENTRY_TOKENS
    if tokens is not None and entries:
        longest = min(longest, max(_MIN_ENTRY_TOKENS, tokens // entries))
    return (
        text
        if len(text) <= longest * CHARACTERS_PER_TOKEN
        else f"{cut_words(text, longest * CHARACTERS_PER_TOKEN)} ..."
    )


def _cut_chunk(chunk: Evidence, tokens: int) -> Evidence:
    """Cut the text of a chunk so that it fits with its title; drop a title that leaves no room for text."""
    characters = tokens * CHARACTERS_PER_TOKEN
    room = characters - (len(format_passage(chunk)) - len(chunk.text))
    if room > 0:
        return replace(chunk, text=cut_words(chunk.text, room))
    return replace(chunk, title="", text=cut_words(chunk.text, characters))
