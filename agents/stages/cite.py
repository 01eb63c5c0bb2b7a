from collections.abc import Mapping, Sequence
from typing import Literal

import sentencex
from pydantic import Field

from agents.evidence.passages import classify_document, format_passage
from agents.evidence.shown import select_documents
from agents.methods.candidates import select_answered
from agents.methods.citations import (
    add_markers,
    check_citations,
    has_supported_figures,
    is_verbatim_in,
    merge_repeated,
    parse_cited,
)
from agents.stage import Context, Stage, StageOptions
from agents.turn import CitedSentence, Evidence, Turn


class Cite(Stage):
    """Drops citations that name no document or one that does not support its sentence (``agents/methods/citations.py``).

    Follows any stage that answers. One call of the reranker scores all pairs of a sentence and a part of a document.
    """

    class Options(StageOptions):
        threshold: float = Field(0.5, description="minimum support of a citation, by the reranker's score")
        attribute: bool = Field(True, description="find the document of a sentence without citation")
        unsupported: Literal["keep", "drop"] = Field("keep", description="treatment of a sentence without citation")

    options: Options
    fills = ("cited",)
    doing = "checking the citations"
    model_roles = ("reranker",)
    kind = "verifies"
    min_seconds, wanted_seconds = 0.5, 1.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``cited`` of the turns that have an answer."""
        options = self.options
        concerned = [
            (turn, sentences, select_documents(turn.evidence))
            for turn, candidate in select_answered(turns)
            if (sentences := merge_repeated(parse_cited(candidate.text)))
        ]
        scores = self._scores(concerned, context)
        for turn, sentences, documents in concerned:
            numbered = list(enumerate(documents, start=1))
            support = [
                {number: compute_support(each.text, turn.question, document, scores) for number, document in numbered}
                for each in sentences
            ]
            checked = check_citations(sentences, support, threshold=options.threshold, attribute=options.attribute)
            turn.cited = tuple(each for each in checked if each.citations or options.unsupported == "keep")
            turn.note(
                cited=" ".join(add_markers(sentence) for sentence in turn.cited),
                documents=[
                    {
                        "number": number,
                        "modality": classify_document(it),
                        "title": it.title,
                        "text": it.text,
                        "url": it.url,
                    }
                    for number, it in numbered
                ],
                generated=[{"text": each.text, "citations": list(each.citations)} for each in sentences],
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
    def _scores(
        concerned: Sequence[tuple[Turn, Sequence[CitedSentence], Sequence[Evidence]]], context: Context
    ) -> Mapping[tuple[str, str], float]:
        """Score each distinct pair of a sentence and a part of a document with the reranker."""
        together = ((sentences, parts(document)) for _, sentences, documents in concerned for document in documents)
        pairs = list(
            dict.fromkeys((each.text, part) for sentences, read in together for each in sentences for part in read)
        )
        if not pairs:
            return {}
        return dict(zip(pairs, (float(score) for score in context.models.reranker.score(pairs)), strict=True))


def parts(document: Evidence) -> list[str]:
    """Split a document into sentences and put the whole of it before them.

    A long document is about more than the one claimed thing.
    """
    whole = format_passage(document)
    sentences = [sentence.strip() for line in document.text.splitlines() for sentence in sentencex.segment("en", line)]
    named = [sentence if document.source != "web" else f"{document.title}: {sentence}" for sentence in sentences]
    return list(dict.fromkeys([whole, *(sentence for sentence in named if sentence)]))


def compute_support(sentence: str, question: str, document: Evidence, scores: Mapping[tuple[str, str], float]) -> float:
    """Compute how far a document supports a sentence, from the reranker's scores of its parts.

    Returns:
        1 if the document contains the sentence word for word, 0 if it lacks a figure of the sentence, else the best score of its parts.
    """
    whole = format_passage(document)
    if is_verbatim_in(sentence, whole):
        return 1.0
    if not has_supported_figures(sentence, [whole, question]):
        return 0.0
    return max((score for part in parts(document) if (score := scores[sentence, part]) == score), default=0.0)
