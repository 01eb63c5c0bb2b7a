"""Names of things in texts, by spaCy: an installed pipeline with named-entity recognition, or rules over a blank one.

spaCy's trained pipelines are no packages of PyPI, so the rules run everywhere: a name is a run of capitalised words,
with "of", "de" and the like inside it. A single capitalised word at the head of a sentence is no name unless it is capitalised
within a sentence of the same text too, or is written in capitals.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

from agents.models.base import ModelError

_BATCH = 64  # texts that a pipeline takes at once
_FIGURES = frozenset({"CARDINAL", "ORDINAL", "QUANTITY", "PERCENT", "MONEY", "TIME", "DATE"})
_CAPITAL = {"TEXT": {"REGEX": r"^(?:[^\W\d_]*[A-ZÀ-ÖØ-Þ].*)$"}, "IS_STOP": False}
_FOLLOWING = {"TEXT": {"REGEX": r"^(?:\S*[A-ZÀ-ÖØ-Þ].*|\d{1,4}[a-z]?)$"}, "IS_STOP": False}
_LINK = {"LOWER": {"IN": ["of", "the", "de", "la", "le", "du", "del", "di", "da", "van", "von", "der", "al", "-"]}}
_TAIL = [{**_LINK, "OP": "+"}, _CAPITAL, {**_FOLLOWING, "OP": "*"}]
_HEAD = [_CAPITAL, {**_FOLLOWING, "OP": "*"}]


class SpacyEntities:
    """An ``EntityFinder``: an installed spaCy pipeline with an ``ner`` component, by name or folder; None for the rules."""

    def __init__(self, pipeline: str | None = None) -> None:
        self.name = f"spacy({pipeline or 'rules'})"
        self._pipeline = pipeline

    def find(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """Find the distinct names in each text, in order.

        Raises:
            ModelError: spaCy or the pipeline is missing, or the pipeline finds no entities.
        """
        return [tuple(dict.fromkeys(self._names(doc))) for doc in self._nlp.pipe(texts, batch_size=_BATCH)]

    def _names(self, doc: Any) -> Iterable[str]:
        if self._pipeline is not None:
            return (span.text.strip() for span in doc.ents if span.label_ not in _FIGURES)
        from spacy.util import filter_spans

        spans = filter_spans(self._matcher(doc, as_spans=True))
        within = {token.text for span in spans for token in span if not token.is_sent_start}
        return (
            span.text
            for span in spans
            if len(span) > 1 or not span[0].is_sent_start or span[0].is_upper or span[0].text in within
        )

    @cached_property
    def _nlp(self) -> Any:
        try:
            import spacy
        except ImportError as error:
            raise ModelError(f"Finding entities takes the package spacy: {error}") from error
        if self._pipeline is None:
            nlp = spacy.blank("en")
            nlp.add_pipe("sentencizer")
            return nlp
        try:
            nlp = spacy.load(self._pipeline)
        except (OSError, ValueError) as error:
            raise ModelError(f"Cannot load the spaCy pipeline {self._pipeline}: {error}") from error
        if not {"ner", "entity_ruler"} & set(nlp.pipe_names):
            raise ModelError(f"The spaCy pipeline {self._pipeline} finds no entities; it has: {nlp.pipe_names}.")
        return nlp

    @cached_property
    def _matcher(self) -> Any:
        from spacy.matcher import Matcher

        matcher = Matcher(self._nlp.vocab)
        matcher.add("NAME", [_HEAD, [*_HEAD, *_TAIL], [*_HEAD, *_TAIL, *_TAIL]])
        return matcher
