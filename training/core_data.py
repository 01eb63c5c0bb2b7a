"""Mine CoRe-MMRAG's training sets (arXiv 2506.02544, section 3.3, eq. 8 and 10) from recorded runs.

    python -m training.core_data results/record --dataset .cache/datasets --out data/core

The runs are of the preset ``core_mmrag_calls``. D_int and D_ext: own and retrieved answer differ, and only one of them is right. D_v and
D_t: picture and text point to different entries, and only one of these has the reference answer (the ground truth I_gt; CRAG-MM names
none). OUT has the files of ``training.collect``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from agents.asking.prompts import Prompt
from agents.base.files import first_fault
from agents.english.knowledge_conflict import prki
from agents.papers.core_mmrag import LETTERS, find_best
from agents.profiles.profile import PROMPTS
from agents.record import TurnRecord
from evaluation.judge.judging import Judge
from evaluation.records import Key
from training.chat_examples import Example, TrainingDataError, build_messages
from training.collect import (
    RecordedRun,
    RunsOptions,
    collect_examples,
    merge_photos,
    read_answer,
    read_runs,
    read_target,
    write_collection,
)
from training.command_line import run_command, write_about

OBJECTIVES = ("prki_int", "prki_ext", "vtki_v", "vtki_t", "sft_v", "sft_t")
"""Sets by the loss they are for; ``Example.objective`` names one of them."""

_OWN, _CHOICE, _RETRIEVED = "parametric_answer", "entry_choice", "entry_answer"  # the prompts that ask step by step


@dataclass(frozen=True)
class Entry:
    """An entry in the record of a turn.

    Attributes:
        name: Its name.
        score: Relevance of its text.
        visual: Similarity of its picture.
        text: Its text.
        image: Name of its picture's file.
    """

    name: str
    score: float
    visual: float
    text: str
    image: str | None = None

    @property
    def title(self) -> str:
        """Its name, by which prompts call it."""
        return self.name


_ENTRIES = TypeAdapter(tuple[Entry, ...])


def read_entries(record: TurnRecord) -> tuple[Entry, ...]:
    """Read the entries of a turn's record, best picture first.

    Raises:
        TrainingDataError: The record has something else.
    """
    try:
        return _ENTRIES.validate_python(record.get_note("entries") or ())
    except ValidationError as error:
        raise TrainingDataError(f"entries of interaction {record.interaction_id}: {first_fault(error)}") from error


def classify_knowledge(own: Example, retrieved: Example) -> tuple[Literal["prki_int", "prki_ext"], str] | None:
    """Return the set that a turn belongs to by its two answers, and the right one (eq. 8).

    Returns:
        None if both answers or neither are right, or one of them is not judged.
    """
    if own.reply_verdict is None or retrieved.reply_verdict is None:
        return None
    differs = prki(read_answer(own.chat_reply), read_answer(retrieved.chat_reply), own.query) is not False
    right = own.reply_verdict == "correct", retrieved.reply_verdict == "correct"
    if right == (True, False) and differs:
        return "prki_int", read_target(own.chat_reply)
    if right == (False, True) and differs:
        return "prki_ext", read_target(retrieved.chat_reply)
    return None


def classify_modality(
    visual: Sequence[float], textual: Sequence[float], holding: Sequence[bool]
) -> tuple[Literal["v", "t"], int] | None:
    """Return whether picture or text points to the right entry, and that entry's place (eq. 10).

    Args:
        visual: Similarity of each entry's picture to the photo.
        textual: Relevance of each entry's text to the question.
        holding: Whether each entry has the answer.

    Returns:
        None if both or neither point to it.
    """
    by_picture, by_text = find_best(visual), find_best(textual)
    if by_picture is None or by_text is None or by_picture == by_text or holding[by_picture] == holding[by_text]:
        return None
    return ("v", by_picture) if holding[by_picture] else ("t", by_text)


def mine(run: RecordedRun, judge: Judge) -> Iterator[Example]:
    """Yield the examples of all sets of a run."""
    every: dict[Key, dict[str, Example]] = {}
    for example in collect_examples(run, judge):
        every.setdefault(example.key, {})[example.prompt] = example
    prompt = Prompt(PROMPTS / f"{_RETRIEVED}.j2")
    for examples_by_prompt in every.values():
        if _OWN in examples_by_prompt and _RETRIEVED in examples_by_prompt:
            knowledge = classify_knowledge(examples_by_prompt[_OWN], examples_by_prompt[_RETRIEVED])
            if knowledge is not None:
                objective, text = knowledge
                yield examples_by_prompt[_RETRIEVED].with_reply(text, objective=objective, reply_verdict="correct")
    for record, judged in run.answerable():
        entries, examples_by_prompt = read_entries(record), every.get(record.key, {})
        modality = classify_modality(
            [entry.visual for entry in entries],
            [entry.score for entry in entries],
            [run.holds_answer(entry.text, judged.turn) for entry in entries],
        )
        if modality is None:
            continue
        side, place = modality
        if _CHOICE in examples_by_prompt:
            yield examples_by_prompt[_CHOICE].with_reply(LETTERS[place], objective=f"vtki_{side}", choices=len(entries))
        if _RETRIEVED in examples_by_prompt:
            entry, truth = entries[place], judged.turn.ground_truth
            request = prompt.request(  # as it was asked, of the right entry
                question=record.question, history=record.history, entry=entry, sheet=None
            )
            messages = build_messages(request, [record.photo, entry.image])
            yield examples_by_prompt[_RETRIEVED].with_reply(
                truth, objective=f"sft_{side}", messages=messages, prompt_cut=0
            )


class CoreDataOptions(RunsOptions):
    """Options of the runs to mine."""


def run(options: CoreDataOptions) -> None:
    """Mine the sets, write and describe them.

    Raises:
        TrainingDataError, EvaluationError: A run cannot be used; the message says why.
    """
    runs, judge, about = read_runs(options)
    examples = [row for recorded in runs for row in mine(recorded, judge)]
    if not examples:
        raise TrainingDataError(
            "no turn of the runs belongs to any of the sets; record runs of the preset core_mmrag_calls, which asks step by step"
        )
    for side, rows in write_collection(examples, options.out, options.held_out, merge_photos(runs)).items():
        counts = Counter(row.objective for row in rows)
        about[side] = {name: counts[name] for name in OBJECTIVES}
    write_about(options.out, about)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    return run_command(run, CoreDataOptions, arguments, __doc__)


if __name__ == "__main__":
    raise SystemExit(main())
