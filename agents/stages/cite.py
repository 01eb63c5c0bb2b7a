from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import sentencex
from pydantic import Field

from agents.methods.candidates import answered
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
from agents.stage import Context, Stage, StageOptions
from agents.texts.evidence_text import modality_of, passage_of
from agents.turn import Evidence, Turn


@dataclass(frozen=True)
class Answered:
    """A turn whose answer can be checked: its sentences and the documents, numbered from 1."""

    turn: Turn
    sentences: tuple[CitedSentence, ...]
    documents: tuple[Evidence, ...]


class Cite(Stage):
    """Citations that name no document, or one that does not support the sentence, are dropped (``agents/methods/citations.py``).

    Works after any stage that answers; all pairs of a sentence and a part of a document go through the reranker in one call.
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
            Answered(turn, sentences, turn.best_evidence(MOST_DOCUMENTS))
            for turn, candidate in answered(turns)
            if (sentences := said_once(parse_cited(candidate.text)))
        ]
        scores = self._scores(concerned, context)
        for one in concerned:
            turn, numbered = one.turn, list(enumerate(one.documents, start=1))
            support = [
                {number: supported(sentence, one, document, scores) for number, document in numbered}
                for sentence in one.sentences
            ]
            checked = check(one.sentences, support, threshold=options.threshold, attribute=options.attribute)
            turn.cited = tuple(each for each in checked if each.citations or options.unsupported == "keep")
            turn.note(
                cited=" ".join(marked(sentence) for sentence in turn.cited),
                documents=[
                    {"number": number, "modality": modality_of(it), "title": it.title, "text": it.text, "url": it.url}
                    for number, it in numbered
                ],
                generated=[{"text": each.text, "citations": list(each.citations)} for each in one.sentences],
                sentences=[
                    {
                        "text": sentence.text,
                        "citations": list(sentence.citations),
                        "given": sentence in turn.cited,
                        "found": sentence.found,
                        "support": [round(scores_of[number], 4) for number in sentence.citations],
                        "dropped": [f"[{item.number}] {item.fault}" for item in sentence.dropped],
                    }
                    for sentence, scores_of in zip(checked, support, strict=True)
                ],
                abstained=len(checked) - len(turn.cited),
            )

    @staticmethod
    def _scores(concerned: Sequence[Answered], context: Context) -> Mapping[tuple[str, str], float]:
        """What the reranker says of each distinct pair of a sentence and a part of a document."""
        together = ((one.sentences, parts(document)) for one in concerned for document in one.documents)
        pairs = list(dict.fromkeys((each.text, part) for said, read in together for each in said for part in read))
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
    sentence: CitedSentence, one: Answered, document: Evidence, scores: Mapping[tuple[str, str], float]
) -> float:
    """How far a document supports a sentence.

    1 where the sentence stands in it word for word, 0 where it lacks a figure of the sentence, else the best score of its parts.
    """
    whole = passage_of(document)
    if stands_in(sentence.text, whole):
        return 1.0
    if not figures_supported(sentence.text, [whole, one.turn.question]):
        return 0.0
    return max((score for part in parts(document) if (score := scores[sentence.text, part]) == score), default=0.0)
