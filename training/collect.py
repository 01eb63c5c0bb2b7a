"""Makes training data of recorded runs: every chat request as it was sent, the model's reply and the verdict of its turn.

    python -m training.collect results/record --dataset .cache/datasets --out data/training

RUN is a folder that ``python -m training.record`` wrote. OUT gets ``train.jsonl``, ``held_out.jsonl``, ``images/`` and ``about.json``.
Sessions go to one side or the other by the hash of their id, so that a session is on the same side in every collection. A run over
public_test is refused, and so is one that holds a question of it about the same picture.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agents.launch import DEFAULT_CACHE
from agents.methods.candidates import candidate_of
from agents.models.base import ChatReply
from agents.opening import tidy
from agents.prompts import Prompt
from evaluation.data.crag_dataset import read_accept
from evaluation.files.manifest import read_manifest
from evaluation.files.outputs import read_turn_table
from evaluation.files.responses import repair
from evaluation.files.run_log import RUN_LOG
from evaluation.judge.judging import Judge, choose_judge, judge_turns
from evaluation.records import DEFAULT_REVISION, AnsweredTurn, JudgedTurn
from evaluation.scores.scoring import is_miss
from training.answer_support import holds_answer
from training.chat_examples import (
    HELD_OUT,
    IMAGES,
    TRAIN,
    Example,
    Message,
    TrainingDataError,
    messages_of,
    write_examples,
)
from training.command_line import parser_of, run_command, write_about
from training.public_test import TestContent, check_split, read_test_content
from training.recorded_agent import IMAGES as RECORDED_IMAGES
from training.recorded_agent import RECORD

RELEVANCE = "relevance"
ANSWERING = frozenset({"answer", "entry_answer", "parametric_answer"})
"""Stages whose reply is an answer as it stands."""

_RELEVANCE_PROMPT = Path(__file__).parent / "prompts" / "relevance.j2"
_Place = tuple[int, int, str]
"""Batch, place in it, question."""


@dataclass(frozen=True)
class Collection:
    """What was found in a run.

    Attributes:
        examples: In the order of asking.
        unplaced: Requests whose turn cannot be told, and which are left out.
    """

    examples: tuple[Example, ...]
    unplaced: int


def is_held_out(session_id: str, share: float) -> bool:
    """Whether a session is held out: by the SHA-256 of its id, the same in every collection with this share."""
    return int(hashlib.sha256(session_id.encode()).hexdigest()[:8], 16) < share * 2**32


def collect_run(
    run: Path,
    judge: Judge,
    *,
    accept: Mapping[str, Sequence[str]] | None = None,
    test: TestContent | None = None,
    relevance: int = 0,
) -> Collection:
    """The examples of one run.

    Args:
        accept: Short right answers by interaction id, for the judge.
        test: Content of the test split, to be kept out.
        relevance: Chunks of evidence of each kind, answering and not, that become yes/no questions for each turn; 0 for none.

    Raises:
        TrainingDataError: The run is not recorded, or is one over the test split.
        EvaluationError: The run is not judged.
    """
    record = read_record(run, test)
    forms = {key: tuple(row) for key, row in (accept or {}).items()}
    found = [
        _example(line, record.judged[key], forms)
        for line in record.lines
        if line["kind"] == "chat" and (key := record.key(line)) is not None
    ]
    requests = sum(line["kind"] == "chat" for line in record.lines)
    examples = with_reply_verdicts(found, judge)
    if relevance:
        examples += list(_relevance(record, forms, relevance))
    return Collection(tuple(replace(example, folder=run) for example in examples), requests - len(found))


@dataclass(frozen=True)
class Record:
    """What a recorded run left.

    Attributes:
        lines: Of chat.jsonl.
        judged: The judged turns by session and interaction.
        places: Session and interaction by batch, place in it and question.
    """

    lines: Sequence[Mapping[str, Any]]
    judged: Mapping[tuple[str, str], JudgedTurn]
    places: Mapping[_Place, tuple[str, str]]

    def key(self, line: Mapping[str, Any]) -> tuple[str, str] | None:
        """Session and interaction of a line; None where they cannot be told."""
        return None if line["turn"] is None else self.places.get((line["batch"], line["turn"], line["query"]))


def read_record(run: Path, test: TestContent | None) -> Record:
    """The record of a run that may be trained on.

    Raises:
        TrainingDataError: The run is not recorded, or holds something of the test split.
        EvaluationError: The run is not judged.
    """
    check_split(read_manifest(run), run)
    lines = _record(run)
    judged = {(turn.turn.session_id, turn.turn.interaction_id): turn for turn in read_turn_table(run)}
    record = Record(lines, judged, _places(run, judged))
    _check_content(record, test, run)
    return record


def _record(run: Path) -> list[dict[str, Any]]:
    path = run / RECORD
    if not path.is_file():
        raise TrainingDataError(f"{path} does not exist: make the run with python -m training.record")
    return repair(path)


def _places(run: Path, judged: Mapping[tuple[str, str], JudgedTurn]) -> dict[_Place, tuple[str, str]]:
    """Session and interaction by place; a place that two turns had, in a resumed run, is left out."""
    found: dict[_Place, set[tuple[str, str]]] = defaultdict(set)
    for cost in repair(run / RUN_LOG):
        key = (str(cost["session_id"]), str(cost["interaction_id"]))
        if key in judged and cost["error"] is None:
            found[cost["batch"], cost["turn"], tidy(judged[key].turn.query)].add(key)
    return {place: next(iter(keys)) for place, keys in found.items() if len(keys) == 1}


def _check_content(record: Record, test: TestContent | None, run: Path) -> None:
    if test is None:
        return
    found = {
        line["query"]
        for line in record.lines
        if line["kind"] == "turn" and test.holds(record.key(line) or (), line["query"], line["photo"])
    }
    if found:
        raise TrainingDataError(
            f"{run} holds {len(found)} questions of public_test about the same pictures (such as {min(found)!r}); "
            "nothing of the test split may be trained on"
        )


def _example(line: Mapping[str, Any], judged: JudgedTurn, accept: Mapping[str, tuple[str, ...]]) -> Example:
    turn = judged.turn
    return Example(
        session_id=turn.session_id,
        interaction_id=turn.interaction_id,
        stage=line["stage"],
        messages=messages_of(line["messages"]),
        reply=line["reply"] if line["finish_reason"] != "error" else "",
        verdict=judged.verdict,  # type: ignore[arg-type]  # one of the three by its definition
        query=turn.query,
        ground_truth=turn.ground_truth,
        accept=accept.get(turn.interaction_id, ()),
        model=line["model"],
        max_tokens=line["max_tokens"],
        prompt_cut=line["prompt_cut"],
    )


def with_reply_verdicts(examples: Sequence[Example], judge: Judge) -> list[Example]:
    """The examples, those that answer with the judge's verdict on their reply."""
    answering = [row for row, example in enumerate(examples) if example.stage in ANSWERING]
    asked = [answered_by(examples[row], answer_in(examples[row].reply)) for row in answering]
    accept = {example.interaction_id: example.accept for example in examples}
    verdicts: dict[int, Any] = {
        row: turn.verdict for row, turn in zip(answering, judge_turns(asked, judge, accept=accept), strict=True)
    }
    return [replace(example, reply_verdict=verdicts.get(row)) for row, example in enumerate(examples)]


def answer_in(reply: str) -> str:
    """The answer of a reply as the agent reads it; "" where it has none."""
    candidate = candidate_of(ChatReply(reply, "stop"))
    return candidate.text if candidate is not None else ""


def answered_by(example: Example, answer: str) -> AnsweredTurn:
    """The turn of an example with this answer, for a judge."""
    return AnsweredTurn(
        example.session_id, example.interaction_id, 0, False, None, "", "", "", example.query, example.ground_truth, answer, 1
    )  # fmt: skip


def _relevance(record: Record, accept: Mapping[str, tuple[str, ...]], most: int) -> Iterator[Example]:
    """Yes/no questions made of evidence (see ``answer_support.holds_answer``)."""
    prompt = Prompt(_RELEVANCE_PROMPT)
    for line in record.lines:
        key = record.key(line) if line["kind"] == "turn" else None
        if key is None or is_miss(record.judged[key].turn.ground_truth):
            continue
        turn = record.judged[key].turn
        made: Counter[bool] = Counter()
        for chunk in line["evidence"]:
            right = holds_answer(chunk, turn.query, turn.ground_truth, accept.get(turn.interaction_id, ()))
            if made[right] >= most:
                continue
            made[right] += 1
            request = prompt.request(question=line["question"], information=chunk)
            messages = [Message(message.role, message.content) for message in request.messages]
            if line["photo"] is not None:
                messages[-1] = replace(messages[-1], images=(line["photo"],))
            yield Example(
                session_id=turn.session_id,
                interaction_id=turn.interaction_id,
                stage=RELEVANCE,
                messages=tuple(messages),
                reply="Yes" if right else "No",
                verdict=record.judged[key].verdict,  # type: ignore[arg-type]
                query=turn.query,
                ground_truth=turn.ground_truth,
                max_tokens=request.max_tokens,
            )


def write_collection(examples: Sequence[Example], out: Path, share: float) -> None:
    """Write both sides and the images they use."""
    held_out = [example for example in examples if is_held_out(example.session_id, share)]
    write_examples(out / TRAIN, [example for example in examples if not is_held_out(example.session_id, share)])
    write_examples(out / HELD_OUT, held_out)
    (out / IMAGES).mkdir(parents=True, exist_ok=True)
    for example in examples:
        for name in example.images:
            target = out / IMAGES / f"{name}.png"
            if not target.exists():
                shutil.copyfile(example.folder / RECORDED_IMAGES / target.name, target)


def describe(examples: Sequence[Example], share: float, tokenizer: Any | None = None) -> dict[str, Any]:
    """Counts of what was collected, by side and stage; rates are 0 to 1, text tokens only where there is a tokenizer."""
    sides = {"train": False, "held_out": True}
    return {
        side: {
            "sessions": len({row.session_id for row in examples if is_held_out(row.session_id, share) is held}),
            "stages": {
                stage: _counts([row for row in examples if row.stage == stage and is_held_out(row.session_id, share) is held], tokenizer)
                for stage in sorted({row.stage for row in examples})
            },
        }
        for side, held in sides.items()
    }  # fmt: skip


def _counts(examples: Sequence[Example], tokenizer: Any | None) -> dict[str, Any]:
    counts: dict[str, Any] = {
        "requests": len(examples),
        "turns": len({(row.session_id, row.interaction_id) for row in examples}),
        "images": sum(len(row.images) for row in examples),
        "prompts_cut": sum(row.prompt_cut > 0 for row in examples),
        "turn_verdicts": dict(sorted(Counter(row.verdict for row in examples).items())),
    }
    judged = [row.reply_verdict for row in examples if row.reply_verdict is not None]
    if judged:
        counts["reply_verdicts"] = dict(sorted(Counter(judged).items()))
        counts["refusals"] = round(judged.count("miss") / len(judged), 4)
    if tokenizer is not None:
        counts["prompt_tokens"] = sum(
            len(tokenizer.encode(message.content, add_special_tokens=False))
            for row in examples
            for message in row.messages
        )
        counts["reply_tokens"] = sum(len(tokenizer.encode(row.reply, add_special_tokens=False)) for row in examples)
    return counts


def runs_parser(name: str, description: str | None) -> argparse.ArgumentParser:
    """A parser with the flags of every command that makes training data of recorded runs."""
    parser = parser_of(name, description)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="folder of a recorded and judged run")
    parser.add_argument("--out", type=Path, required=True, help="folder of the training data")
    parser.add_argument("--held-out", type=float, default=0.1, help="share of the sessions held out (default: 0.1)")
    parser.add_argument(
        "--dataset", type=Path, help="local data sets whose public_test is kept out by content; without it only by name"
    )
    parser.add_argument("--revision", default=DEFAULT_REVISION, help=f"their revision (default: {DEFAULT_REVISION})")
    parser.add_argument("--eval-model", metavar="MODEL", help="judge of the replies (see local_evaluation.py)")
    parser.add_argument("--cache", type=Path, default=DEFAULT_CACHE, help="folder of judgements and converted tables")
    return parser


def known_content(arguments: argparse.Namespace) -> tuple[TestContent | None, dict[str, list[str]]]:
    """The test split and the accept forms of the data sets that were named; checks the runs and the share first.

    Raises:
        TrainingDataError, EvaluationError: A run cannot be used, or the data sets have no test split.
    """
    if not 0 < arguments.held_out < 1:
        raise TrainingDataError(f"--held-out is a share between 0 and 1, not {arguments.held_out}")
    for folder in arguments.runs:
        check_split(read_manifest(folder), folder)
    if arguments.dataset is None:
        return None, {}
    test = read_test_content(arguments.dataset, revision=arguments.revision, cache=arguments.cache)
    return test, read_accept([arguments.dataset, *sorted(arguments.dataset.glob(f"*/{arguments.revision}"))])


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Collect, write and describe.

    Raises:
        TrainingDataError, EvaluationError: A run cannot be used; the message says why.
    """
    test, accept = known_content(arguments)
    judge = choose_judge(arguments.eval_model, cache=arguments.cache)
    found = [
        collect_run(folder, judge, accept=accept, test=test, relevance=arguments.relevance) for folder in arguments.runs
    ]
    examples = [example for each in found for example in each.examples]
    if not examples:
        raise TrainingDataError("the runs hold no request whose turn was judged")
    tokenizer = None
    if arguments.tokenizer is not None:
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(arguments.tokenizer)
    write_collection(examples, arguments.out, arguments.held_out)
    about = {
        "runs": [str(folder) for folder in arguments.runs],
        "judge": judge.name,
        "held_out_share": arguments.held_out,
        "public_test": "kept out by name and content" if test is not None else "kept out by name alone",
        "unplaced_requests": sum(each.unplaced for each in found),
        **describe(examples, arguments.held_out, tokenizer),
    }
    return write_about(arguments.out, about)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = runs_parser("collect", __doc__)
    parser.add_argument(
        "--relevance",
        type=int,
        default=1,
        metavar="N",
        help="chunks of each kind a turn for yes/no questions (default: 1)",
    )
    parser.add_argument("--tokenizer", metavar="PATH", help="tokenizer that counts tokens; default: none are counted")
    return run_command(run, parser, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
