"""Long answers with their citations, read from the traces of runs that cited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from evaluation.attribution.mavis import Document, LongAnswer, Sentence
from evaluation.files.responses import RESPONSES, read_responses
from evaluation.files.run_log import read_run_log
from evaluation.files.traces import TRACE, match_traces, read_traces, stages_of
from evaluation.records import EvaluationError

Which = Literal["generated", "checked"]
"""The answer as the model wrote it, or what was left of it after its citations were checked."""


@dataclass(frozen=True)
class CitedRun:
    """A run's answers with citations; ``turns`` counts all of its turns, those that were not answered too."""

    answers: tuple[LongAnswer, ...]
    turns: int


def read_cited(run: Path, which: Which, accept: Mapping[str, Sequence[str]] | None = None) -> CitedRun:
    """The long answers of a run, from response.jsonl and trace.jsonl in its folder; ``accept``: short right answers by interaction_id.

    Raises:
        EvaluationError: There are no answers or traces, or nothing in them was cited.
    """
    turns = read_responses(run / RESPONSES)
    if not (run / TRACE).is_file():
        raise EvaluationError(f"there is no trace {run / TRACE}")
    matched = match_traces(turns, read_traces(run / TRACE), read_run_log(run))
    answers = []
    for turn in turns:
        cite = _cited(matched[turn.key].record) if turn.key in matched else None
        if cite is not None and (sentences := _sentences(cite, which)):
            documents = tuple(
                Document(int(item["number"]), str(item["modality"]), str(item["title"]), str(item["text"]))
                for item in cite["documents"]
            )
            forms = tuple((accept or {}).get(turn.interaction_id, ()))
            answers.append(LongAnswer(turn.query, turn.ground_truth, sentences, documents, forms))
    if not answers:
        raise EvaluationError(f"{run} holds no cited answer; run with --preset mavis or --set finalise.cite=true")
    return CitedRun(tuple(answers), len(turns))


def _cited(record: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the stage ``cite`` noted."""
    found = (stage for stage in stages_of(record) if stage.get("stage") == "cite")
    return next((stage for stage in found if stage.get("documents") is not None), None)


def _sentences(cite: Mapping[str, Any], which: Which) -> tuple[Sentence, ...]:
    sentences = (
        Sentence(str(item["text"]), tuple(item["citations"]))
        for item in cite["generated" if which == "generated" else "sentences"]
        if which == "generated" or item["given"]
    )
    return tuple(dict.fromkeys(sentences))
