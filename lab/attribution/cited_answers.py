"""Long answers with their citations, read from the traces of runs that cited."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from PIL import Image

from agents.record import TurnRecord
from evaluation.files.responses import RESPONSES, read_responses
from evaluation.files.run_dataset import SelectAccept
from evaluation.files.traces import TRACE, read_traces
from evaluation.records import EvaluationError
from lab.attribution.mavis import Document, LongAnswer, Sentence

Which = Literal["generated", "checked"]
"""Version of an answer: as the model wrote it, or what remained after its citations were checked."""


@dataclass(frozen=True)
class CitedRun:
    """Cited answers of a run; ``turns`` counts all of its turns, unanswered ones included."""

    answers: tuple[LongAnswer, ...]
    turns: int


def read_cited(
    run: Path,
    which: Which,
    accept: SelectAccept = lambda _: {},
    photo: Callable[[str], Image.Image | None] = lambda _: None,
) -> CitedRun:
    """Read the long answers of a run from response.jsonl and trace.jsonl in its folder.

    Args:
        run: Folder of the run.
        which: Version of the answers.
        accept: Selects the short right answers.
        photo: Returns the picture of a session_id.

    Raises:
        EvaluationError: There are no answers or traces, or nothing in them was cited.
    """
    turns = read_responses(run / RESPONSES)
    forms = accept(turns)
    if not (run / TRACE).is_file():
        raise EvaluationError(f"there is no trace {run / TRACE}")
    records = read_traces(run / TRACE, is_required=True)
    answers = []
    for turn in turns:
        record = records.get(turn.key)
        listed = record.get_note("documents") if record is not None else None
        if record is not None and isinstance(listed, list) and (sentences := _sentences(record, which)):
            documents = tuple(
                Document(int(item["number"]), str(item["modality"]), str(item["title"]), str(item["text"]))
                for item in listed
            )
            own_forms = tuple(forms.get(turn.interaction_id, ()))
            photo_of_turn = partial(photo, turn.session_id)
            answers.append(LongAnswer(turn.query, turn.ground_truth, sentences, documents, own_forms, photo_of_turn))
    if not answers:
        raise EvaluationError(f"{run} holds no cited answer; run with --preset mavis or --set finalise.cite=true")
    return CitedRun(tuple(answers), len(turns))


def _sentences(record: TurnRecord, which: Which) -> tuple[Sentence, ...]:
    noted = record.get_note("generated" if which == "generated" else "sentences") or ()
    sentences = (
        Sentence(str(item["text"]), tuple(item["citations"])) for item in noted if which == "generated" or item["given"]
    )
    return tuple(dict.fromkeys(sentences))
