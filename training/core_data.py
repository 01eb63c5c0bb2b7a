"""Mines CoRe-MMRAG's training sets (arXiv 2506.02544, section 3.3, eq. 8 and 10) from recorded runs of the preset ``core_mmrag_calls``.

    python -m training.core_data results/record --dataset .cache/datasets --out data/core

D_int and D_ext: own and retrieved answer differ, and only one of them is right. D_v and D_t: picture and text point to different entries,
and only one of these holds the reference answer (the ground truth I_gt; CRAG-MM names none). OUT has the files of ``training.collect``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from agents.asking.prompts import Prompt
from agents.asking.readers.entry_replies import LETTERS
from agents.base.files import first_fault
from agents.methods.knowledge_conflict import preferred, prki
from agents.profiles.profile import PROMPTS
from agents.record import TurnRecord
from evaluation.judge.judging import Judge
from evaluation.records import Key
from training.chat_examples import Example, TrainingDataError, messages_of
from training.collect import RecordedRun, RunsOptions, answer_in, examples_of, read_runs, write_collection
from training.command_line import run_command, write_about

OBJECTIVES = ("prki_int", "prki_ext", "vtki_v", "vtki_t", "sft_v", "sft_t")
"""The sets by the loss they are for; they stand in ``Example.objective``."""

_OWN, _CHOICE, _RETRIEVED = "parametric_answer", "entry_choice", "entry_answer"  # the prompts that ask step by step


@dataclass(frozen=True)
class Entry:
    """An entry as the record notes it: ``score`` is the relevance of its text, ``image`` the name of its picture's file."""

    name: str
    score: float
    visual: float
    text: str
    image: str | None = None

    @property
    def title(self) -> str:
        """As prompts call its name."""
        return self.name


_ENTRIES = TypeAdapter(tuple[Entry, ...])


def entries_of(record: TurnRecord) -> tuple[Entry, ...]:
    """The entries that a turn noted, best picture first. Raises TrainingDataError where they are something else."""
    try:
        return _ENTRIES.validate_python(record.noted("entries") or ())
    except ValidationError as error:
        raise TrainingDataError(f"entries of interaction {record.interaction_id}: {first_fault(error)}") from error


def knowledge_source(own: Example, retrieved: Example) -> tuple[Literal["prki_int", "prki_ext"], str] | None:
    """The set that a turn belongs to by its two answers, and the one that is right (eq. 8); None where both or none are."""
    answers = answer_in(own.reply), answer_in(retrieved.reply)
    right = own.reply_verdict == "correct", retrieved.reply_verdict == "correct"
    if right == (True, False) and prki(*answers) is not False:
        return "prki_int", own.reply
    if right == (False, True) and prki(*answers) is not False:
        return "prki_ext", retrieved.reply
    return None


def modality(
    visual: Sequence[float], textual: Sequence[float], holding: Sequence[bool]
) -> tuple[Literal["v", "t"], int] | None:
    """Whether picture or text points to the right entry, and that entry's place (eq. 10); None where both or neither do.

    ``visual`` is the likeness of each entry's picture to the photo, ``textual`` the relevance of its text to the question, ``holding``
    whether it holds the answer.
    """
    by_picture, by_text = preferred(visual), preferred(textual)
    if by_picture is None or by_text is None or by_picture == by_text or holding[by_picture] == holding[by_text]:
        return None
    return ("v", by_picture) if holding[by_picture] else ("t", by_text)


def mine(run: RecordedRun, judge: Judge) -> Iterator[Example]:
    """The examples of all sets that a run holds."""
    every: dict[Key, dict[str, Example]] = {}
    for example in examples_of(run, judge):
        every.setdefault(example.key, {})[example.prompt] = example
    prompt = Prompt(PROMPTS / f"{_RETRIEVED}.j2")
    for asked in every.values():
        if _OWN in asked and _RETRIEVED in asked:
            found = knowledge_source(asked[_OWN], asked[_RETRIEVED])
            if found is not None:
                yield replace(asked[_RETRIEVED], objective=found[0], reply=found[1], reply_verdict="correct")
    for record, judged in run.answerable():
        entries, asked = entries_of(record), every.get(record.key, {})
        chosen = modality(
            [entry.visual for entry in entries],
            [entry.score for entry in entries],
            [run.holds_answer(entry.text, judged.turn) for entry in entries],
        )
        if chosen is None:
            continue
        side, place = chosen
        if _CHOICE in asked:
            yield replace(asked[_CHOICE], objective=f"vtki_{side}", reply=LETTERS[place], choices=len(entries))
        if _RETRIEVED in asked:
            entry, truth = entries[place], judged.turn.ground_truth
            request = prompt.request(  # as it was asked, of the right entry
                question=record.question, history=record.history, entry=entry, sheet=None
            )
            messages = messages_of(request, [record.photo, entry.image])
            yield replace(asked[_RETRIEVED], objective=f"sft_{side}", messages=messages, reply=truth, prompt_cut=0)


class CoreDataOptions(RunsOptions):
    """Which runs are mined."""


def run(options: CoreDataOptions) -> None:
    """Mine, write and describe. Raises TrainingDataError, EvaluationError where a run cannot be used; the message says why."""
    runs, judge, about = read_runs(options)
    examples = [row for recorded in runs for row in mine(recorded, judge)]
    if not examples:
        raise TrainingDataError(
            "no turn of the runs belongs to any of the sets; record runs of the preset core_mmrag_calls, which asks step by step"
        )
    for side, rows in write_collection(examples, options.out, options.held_out).items():
        counts = Counter(row.objective for row in rows)
        about[side] = {name: counts[name] for name in OBJECTIVES}
    write_about(options.out, about)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    return run_command(run, CoreDataOptions, arguments, __doc__)


if __name__ == "__main__":
    raise SystemExit(main())
