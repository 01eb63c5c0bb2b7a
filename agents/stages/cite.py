"""Citations are checked: each has to name a document that supports its sentence; works after any stage that answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import sentencex
from pydantic import Field

from agents.methods.citations import (
    MOST_DOCUMENTS,
    CitedSentence,
    check,
    figures_supported,
    marked,
    parse_cited,
    said_once,
    stands_in,
)
from agents.methods.knowledge_conflict import says_something
from agents.stage import Context, Stage, StageOptions
from agents.texts.evidence_text import modality_of, passage_of
from agents.turn import Candidate, Evidence, Turn


@dataclass(frozen=True)
class Answered:
    """A turn whose answer can be checked: its sentences and the documents, numbered from 1."""

    turn: Turn
    candidate: Candidate
    sentences: tuple[CitedSentence, ...]
    documents: tuple[Evidence, ...]


class Cite(Stage):
    """Citations that name no document, or one that does not support the sentence, are dropped (``agents/methods/citations.py``).

    All pairs of a sentence and a part of a document go through the reranker in one call.
    """

    class Options(StageOptions):
        threshold: float = Field(
            0.5, description="support, as the reranker scores it, below which a citation is dropped"
        )
        attribute: bool = Field(True, description="find the document of a sentence that is left without citation")
        unsupported: Literal["keep", "drop"] = Field("keep", description="what becomes of a sentence without citation")

    options: Options
    fills = ("cited",)
    model_roles = ("reranker",)
    kind = "verifies"
    least_seconds, wanted_seconds = 0.5, 1.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``cited`` of the turns that have an answer."""
        options = self.options
        concerned = [
            Answered(
                turn, turn.candidate, said_once(parse_cited(turn.candidate.text)), turn.best_evidence(MOST_DOCUMENTS)
            )
            for turn in turns
            if turn.candidate is not None and says_something(turn.candidate.text)
        ]
        concerned = [answered for answered in concerned if answered.sentences]
        scores = self._scores(concerned, context)
        for answered in concerned:
            support = [
                {
                    number: supported(sentence, answered, document, scores)
                    for number, document in enumerate(answered.documents, start=1)
                }
                for sentence in answered.sentences
            ]
            checked = check(answered.sentences, support, threshold=options.threshold, attribute=options.attribute)
            answered.turn.cited = tuple(
                sentence for sentence in checked if sentence.citations or options.unsupported == "keep"
            )
            answered.turn.note(
                cited=" ".join(marked(sentence) for sentence in answered.turn.cited),
                documents=[
                    {
                        "number": number,
                        "modality": modality_of(document),
                        "title": document.title,
                        "text": document.text,
                        "url": document.url,
                    }
                    for number, document in enumerate(answered.documents, start=1)
                ],
                generated=[
                    {"text": sentence.text, "citations": list(sentence.citations)} for sentence in answered.sentences
                ],
                sentences=[
                    {
                        "text": sentence.text,
                        "citations": list(sentence.citations),
                        "given": sentence in answered.turn.cited,
                        "found": sentence.found,
                        "support": [round(scores_of[number], 4) for number in sentence.citations],
                        "dropped": [f"[{item.number}] {item.fault}" for item in sentence.dropped],
                    }
                    for sentence, scores_of in zip(checked, support, strict=True)
                ],
                abstained=len(checked) - len(answered.turn.cited),
            )

    @staticmethod
    def _scores(concerned: Sequence[Answered], context: Context) -> Mapping[tuple[str, str], float]:
        """What the reranker says of each distinct pair of a sentence and a part of a document."""
        pairs = list(
            dict.fromkeys(
                (sentence.text, part)
                for answered in concerned
                for sentence in answered.sentences
                for document in answered.documents
                for part in parts(document)
            )
        )
        if not pairs:
            return {}
        return dict(zip(pairs, (float(score) for score in context.models.reranker.score(pairs)), strict=True))


def parts(document: Evidence) -> list[str]:
    """A document as a whole and sentence by sentence: a long one is about more than the one thing that is claimed."""
    whole = passage_of(document)
    sentences = [sentence.strip() for line in document.text.splitlines() for sentence in sentencex.segment("en", line)]
    named = [sentence if document.source != "web" else f"{document.title}: {sentence}" for sentence in sentences]
    return list(dict.fromkeys([whole, *(sentence for sentence in named if sentence)]))


def supported(
    sentence: CitedSentence, answered: Answered, document: Evidence, scores: Mapping[tuple[str, str], float]
) -> float:
    """How far a document supports a sentence.

    1 where the sentence stands in it word for word, 0 where it lacks a figure of the sentence, else the best score of its parts.
    """
    whole = passage_of(document)
    if stands_in(sentence.text, whole):
        return 1.0
    if not figures_supported(sentence.text, [whole, answered.turn.question]):
        return 0.0
    return max((score for part in parts(document) if (score := scores[sentence.text, part]) == score), default=0.0)
