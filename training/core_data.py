"""Mines CoRe-MMRAG's training sets (arXiv 2506.02544, section 3.3, eq. 8 and 10) from recorded runs of the preset ``core_mmrag_calls``.

    python -m training.core_data results/record --dataset .cache/datasets --out data/core

D_int and D_ext: own and retrieved answer differ, and only one of them is right. D_v and D_t: picture and text point to different entries,
and only one of these holds the reference answer (the ground truth I_gt; CRAG-MM names none). OUT has the files of ``training.collect``.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

from agents.methods.entry_replies import LETTERS
from agents.methods.knowledge_conflict import preferred, prki
from agents.prompts import PromptLibrary
from agents.settings import PROMPTS
from evaluation.judge.judging import Judge, choose_judge
from evaluation.scores.scoring import is_miss
from training.answer_support import holds_answer
from training.chat_examples import Example, Message, TrainingDataError
from training.collect import (
    Record,
    answer_in,
    collect_run,
    is_held_out,
    known_content,
    read_record,
    runs_parser,
    write_collection,
)
from training.command_line import run_command, write_about
from training.public_test import TestContent

Objective = Literal["prki_int", "prki_ext", "vtki_v", "vtki_t", "sft_v", "sft_t"]
OBJECTIVES: tuple[Objective, ...] = ("prki_int", "prki_ext", "vtki_v", "vtki_t", "sft_v", "sft_t")
"""The sets by the loss they are for; they stand in ``Example.stage``."""

_Turns = Mapping[tuple[str, str], Mapping[str, Example]]


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

    Args:
        visual: Likeness of each entry's picture to the photo.
        textual: Relevance of each entry's text to the question.
        holding: Whether each entry holds the answer.
    """
    by_picture, by_text = preferred(visual), preferred(textual)
    if by_picture is None or by_text is None or by_picture == by_text or holding[by_picture] == holding[by_text]:
        return None
    return ("v", by_picture) if holding[by_picture] else ("t", by_text)


def mine(
    run: Path, judge: Judge, *, accept: Mapping[str, Sequence[str]] | None = None, test: TestContent | None = None
) -> list[Example]:
    """The examples of all sets that a run holds.

    Raises:
        TrainingDataError, EvaluationError: See ``collect_run``.
    """
    asked: dict[tuple[str, str], dict[str, Example]] = {}
    for example in collect_run(run, judge, accept=accept, test=test).examples:
        asked.setdefault((example.session_id, example.interaction_id), {})[example.stage] = example
    record = read_record(run, test)
    made = [*_prki(asked), *_by_modality(record, asked, accept or {})]
    return [replace(example, folder=run) for example in made]


def _prki(asked: _Turns) -> Iterator[Example]:
    for stages in asked.values():
        own, retrieved = stages.get("parametric_answer"), stages.get("entry_answer")
        if own is None or retrieved is None:
            continue
        found = knowledge_source(own, retrieved)
        if found is not None:
            stage, reply = found
            yield replace(retrieved, stage=stage, reply=reply, reply_verdict="correct")


def _by_modality(record: Record, asked: _Turns, accept: Mapping[str, Sequence[str]]) -> Iterator[Example]:
    for line in record.lines:
        key = record.key(line) if line["kind"] == "turn" else None
        if key is None or is_miss(record.judged[key].turn.ground_truth):
            continue
        turn, entries = record.judged[key].turn, line["entries"]
        forms = accept.get(turn.interaction_id, ())
        holding = [holds_answer(entry["text"], turn.query, turn.ground_truth, forms) for entry in entries]
        found = modality([entry["visual"] for entry in entries], [entry["textual"] for entry in entries], holding)
        if found is None:
            continue
        side, place = found
        choice = asked.get(key, {}).get("choose_entry")
        if choice is not None:
            yield replace(choice, stage=f"vtki_{side}", reply=LETTERS[place], choices=len(entries))
        answered = asked.get(key, {}).get("entry_answer")
        if answered is not None:
            messages = _entry_messages(line, entries[place])
            yield replace(answered, stage=f"sft_{side}", messages=messages, reply=turn.ground_truth, prompt_cut=0)


def _entry_messages(line: Mapping[str, Any], entry: Mapping[str, Any]) -> tuple[Message, ...]:
    """The question with the right entry, as the stage ``entry_answer`` asks it."""
    request = PromptLibrary(PROMPTS)["entry_answer"].request(
        question=line["question"], history=line["history"], entry=SimpleNamespace(**entry)
    )
    shown = tuple(name for name in (line["photo"], entry["image"]) if name is not None)
    messages = [Message(message.role, message.content) for message in request.messages]
    last = max(place for place, message in enumerate(messages) if message.role == "user")
    messages[last] = replace(messages[last], images=shown)
    return tuple(messages)


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Mine, write and describe.

    Raises:
        TrainingDataError, EvaluationError: A run cannot be used; the message says why.
    """
    test, accept = known_content(arguments)
    judge = choose_judge(arguments.eval_model, cache=arguments.cache)
    examples = [row for folder in arguments.runs for row in mine(folder, judge, accept=accept, test=test)]
    if not examples:
        raise TrainingDataError(
            "no turn of the runs belongs to any of the sets; record runs of the preset core_mmrag_calls, whose stages ask one by one"
        )
    write_collection(examples, arguments.out, arguments.held_out)
    train = Counter(row.stage for row in examples if not is_held_out(row.session_id, arguments.held_out))
    every = Counter(row.stage for row in examples)
    about = {
        "runs": [str(folder) for folder in arguments.runs],
        "judge": judge.name,
        "held_out_share": arguments.held_out,
        "train": {name: train[name] for name in OBJECTIVES},
        "held_out": {name: every[name] - train[name] for name in OBJECTIVES},
    }
    return write_about(arguments.out, about)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    return run_command(run, runs_parser("core_data", __doc__), arguments)


if __name__ == "__main__":
    raise SystemExit(main())
