"""Make training data of recorded runs: every chat request, its reply and the verdict of its turn.

    python -m training.collect results/record --dataset .cache/datasets --out data/training

RUN is a folder that ``local_evaluation.py --record-requests`` wrote. OUT gets ``train.jsonl``, ``held_out.jsonl``, ``images/`` and
``about.json``. The requests are those that the model received. The hash of its photo decides the side of a session, so that all sessions
about a photo are on the same side in every collection with the same --held-out. Two kinds of runs are refused: those over public_test,
and those with a question of it about the same picture.
"""

from __future__ import annotations

import logging
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import Field

from agents.asking.prompts import Prompt
from agents.asking.readers.answers import ANSWER, ANSWERS, STEP_ANSWER
from agents.asking.readers.verdicts import YES_NO
from agents.base.command_options import Flag
from agents.base.revisions import split_revision
from agents.english.plain_text import normalise_text, tokenise, tokenise_content
from agents.models.base import ChatReply
from agents.record import REQUEST_IMAGES, Exchange, StageRecord, TurnRecord
from agents.texts.replies import was_cut
from agents.turn import IDK
from evaluation.files.manifest import read_manifest
from evaluation.files.outputs import read_own_table
from evaluation.files.run_dataset import SelectAccept, make_accept_selector
from evaluation.files.traces import TRACE, read_traces
from evaluation.judge.judging import Judge, choose_judge, judge_turns
from evaluation.judge.rule_judge import KEY_SHARE
from evaluation.records import DEFAULT_REVISION, AnsweredTurn, JudgedTurn
from evaluation.scores.scoring import is_miss
from training.chat_examples import (
    HELD_OUT,
    IMAGES,
    TRAIN,
    Example,
    Message,
    TrainingDataError,
    Verdict,
    build_messages,
    is_held_out,
    write_examples,
)
from training.command_line import HELD_OUT_SHARE, JudgedOptions, run_command, write_about
from training.public_test import TestContent, check_split, read_test_content

RELEVANCE = "relevance"

log = logging.getLogger(__name__)

_MAX_EVIDENCE = 20  # chunks of a turn
_RELEVANCE_PROMPT = Path(__file__).parent / "prompts" / "relevance.j2"


@dataclass(frozen=True)
class RecordedRun:
    """Records and verdicts of a recorded run.

    Attributes:
        folder: Folder of the run.
        turns: The record of each judged turn with its verdict, in the order of asking.
        unjudged: Number of requests of turns in error or without a judgement: no judge saw them, or it failed.
        accept: Short right answers by interaction id.
    """

    folder: Path
    turns: Sequence[tuple[TurnRecord, JudgedTurn]]
    unjudged: int
    accept: Mapping[str, Sequence[str]]

    @property
    def photos(self) -> dict[str, str]:
        """Name of the photo of each session that has one."""
        return {record.session_id: record.photo for record, _ in self.turns if record.photo is not None}

    def answerable(self) -> Iterator[tuple[TurnRecord, JudgedTurn]]:
        """Return the turns that have an answer."""
        return ((record, judged) for record, judged in self.turns if not is_miss(judged.turn.ground_truth))

    def holds_answer(self, text: str, turn: AnsweredTurn) -> bool:
        """Return whether a text contains the answer to a turn's question (see ``holds_answer``)."""
        return holds_answer(text, turn.query, turn.ground_truth, self.accept.get(turn.interaction_id, ()))

    def example(self, judged: JudgedTurn, **request: Any) -> Example:
        """Build an example of a turn; ``request`` may replace the turn's own question and truth."""
        turn = judged.turn
        fields = {
            "query": turn.query,
            "ground_truth": turn.ground_truth,
            "accept": tuple(self.accept.get(turn.interaction_id, ())),
        }
        return Example(
            session_id=turn.session_id,
            interaction_id=turn.interaction_id,
            verdict=judged.verdict,  # type: ignore[arg-type]  # ``read_run`` leaves out errors and unjudged turns
            folder=self.folder,
            **{**fields, **request},
        )


def read_run(run: Path, test: TestContent | None, accept: SelectAccept) -> RecordedRun:
    """Read the records of a run, with the accept forms of its turns.

    Args:
        run: Folder of the run.
        test: The test split, whose questions are refused; None: not checked. ``read_runs`` checks the split's name.
        accept: Selects the accept forms.

    Raises:
        TrainingDataError: The run is not recorded, or has a question of ``test``.
        EvaluationError: The run is not judged, its table is of other answers, or its data set cannot be loaded.
    """
    records = read_traces(run / TRACE, is_required=True)
    exchanges = [exchange for record in records.values() for exchange in record.exchanges]
    if not exchanges or not all(exchange.messages for exchange in exchanges):
        raise TrainingDataError(f"{run / TRACE} has no requests: make the run with --record-requests")
    judged = {turn.turn.key: turn for turn in read_own_table(run)}
    test_records = (each for each in records.values() if test and test.holds(each.key, each.query, each.photo))
    if tested := {record.query for record in test_records}:
        raise TrainingDataError(
            f"{run} has {len(tested)} questions of public_test about the same pictures (such as {min(tested)!r}); "
            "nothing of the test split may be trained on"
        )
    turns = [
        (record, judged[key])
        for key, record in records.items()
        if key in judged and judged[key].verdict not in ("error", "unjudged")
    ]
    unjudged = len(exchanges) - sum(len(record.exchanges) for record, _ in turns)
    return RecordedRun(run, turns, unjudged, accept([judged_turn.turn for _, judged_turn in turns]))


def collect_examples(run: RecordedRun, judge: Judge) -> list[Example]:
    """Collect the requests of a run in the order of asking, with verdicts on the replies that answer.

    A request repeated with the same reply, as after a failure, is taken once. One without a whole reply is left out: judged as
    an answer it is wrong, and would be taught as a refusal of what the model may know. A step of a plan answers another question than its
    turn's. It is right if the steps made a right candidate. Otherwise nobody knows which of them was wrong, and it has no verdict.
    """
    by_steps = _right_by_steps(run, judge)
    collected = [
        run.example(
            judged,
            prompt=exchange.prompt,
            form=exchange.form,
            messages=tuple(Message(message.role, message.content, message.images) for message in exchange.messages),
            reply=exchange.reply,
            model=exchange.model,
            max_tokens=exchange.max_tokens,
            prompt_cut=exchange.prompt_cut,
            finish_reason=exchange.finish_reason,
            **(_describe_step(stage, exchange, record.key in by_steps) if exchange.form == STEP_ANSWER.name else {}),
        )
        for record, judged in run.turns
        for stage in record.stages
        for exchange in stage.exchanges
        if is_whole(exchange)
    ]
    examples = list(dict.fromkeys(collected))
    answering = [row for row, example in enumerate(examples) if example.form in ANSWERS]
    answers = [examples[row] for row in answering]
    for row, turn in zip(
        answering, judge_replies(answers, [example.chat_reply for example in answers], judge), strict=True
    ):
        examples[row] = replace(examples[row], reply_verdict=read_verdict(turn))
    return examples


def is_whole(exchange: Exchange) -> bool:
    """Return whether a request has the reply that the model meant: neither failed nor cut off by the deadline."""
    return exchange.finish_reason not in ("error", "abort")


def _right_by_steps(run: RecordedRun, judge: Judge) -> set[tuple[str, str]]:
    """Return the turns whose candidate was made of steps alone and is right, given or withheld."""
    decided = [
        (judged.turn, record.decision.candidate)
        for record, judged in run.turns
        if record.decision is not None and record.decision.candidate
        # With too little time for its steps a question is asked again as a whole.
        and [each.form for each in record.exchanges if each.form in (*ANSWERS, STEP_ANSWER.name)][-1:] == [STEP_ANSWER.name]
    ]  # fmt: skip
    turns = [replace(turn, agent_response=candidate) for turn, candidate in decided]
    return {judged_turn.turn.key for judged_turn in judge_turns(turns, judge, accept=run.accept) if judged_turn.correct}


def _describe_step(stage: StageRecord, exchange: Exchange, right: bool) -> dict[str, Any]:
    """Return the values that an example of a step has in place of its turn's.

    They are its own question, its answer as the truth if that is right, and its verdict. A reply without a whole answer has none.
    """
    answer = read_answer(ChatReply(exchange.reply, exchange.finish_reason), STEP_ANSWER.name)  # type: ignore[arg-type]  # of a record
    right = right and bool(answer)
    question = exchange.messages[-1].content
    named = (query for query in stage.queries if question.endswith(query))
    return {
        "query": max(named, key=len, default=question),
        "ground_truth": answer if right else "",
        "accept": (),
        "reply_verdict": "correct" if right else None,
    }


def select_questions(examples: Iterable[Example]) -> list[Example]:
    """Select the examples whose reply is the model's answer to a question."""
    return [example for example in examples if example.form in ANSWERS]


def read_answer(reply: ChatReply, form: str = ANSWER.name) -> str:
    """Parse the answer of a reply of a form as the agent does; "" if it has none."""
    candidate = (STEP_ANSWER if form == STEP_ANSWER.name else ANSWER).read(reply)
    return candidate.text if candidate is not None else ""


def read_target(reply: ChatReply, form: str = ANSWER.name) -> str:
    """Return the text to learn of a right reply: as it came, or if it was cut off the answer that the agent reads of it."""
    return read_answer(reply, form) if was_cut(reply) else reply.text


def judge_replies(examples: Sequence[Example], replies: Sequence[ChatReply], judge: Judge) -> list[JudgedTurn]:
    """Judge each reply as the answer to the turn of the example beside it; the log counts failed judgements.

    However many fail, training goes on: nothing is learned of their replies.
    A reply without an answer is a refusal, as the agent's "I don't know" in its place.
    """
    turns = [
        AnsweredTurn(*row.key, 0, False, None, "", "", "", row.query, row.ground_truth, read_answer(reply) or IDK, 1)
        for row, reply in zip(examples, replies, strict=True)
    ]
    judged = judge_turns(turns, judge, accept={row.interaction_id: row.accept for row in examples}, max_failures=0)
    if failed := [turn.reason for turn in judged if turn.judge_failed]:
        log.warning("%d of %d replies are not judged and teach nothing: %s", len(failed), len(judged), failed[0])
    return judged


def read_verdict(judged: JudgedTurn) -> Verdict | None:
    """Return the verdict of a judged reply; None if the judge failed, which tells nothing of the reply."""
    return None if judged.judge_failed else judged.verdict  # type: ignore[return-value]  # a reply is no error


def holds_answer(chunk: str, question: str, ground_truth: str, accept: Sequence[str] = ()) -> bool:
    """Return whether a chunk of evidence contains one of the accept forms as a run of words.

    Without accept forms, the key words are those of the ground truth that the question lacks. The chunk must hold all figures and at least
    ``KEY_SHARE`` of them. Without key words the result is False.
    """
    words = tokenise(normalise_text(chunk))
    if accept:
        forms = [" ".join(tokenise(normalise_text(form))) for form in accept]
        return any(form and f" {form} " in f" {' '.join(words)} " for form in forms)
    question_words = set(tokenise_content(normalise_text(question)))
    key = [word for word in dict.fromkeys(tokenise_content(normalise_text(ground_truth))) if word not in question_words]
    figures = [word for word in key if word[0].isdigit()]
    return bool(key) and set(figures) <= set(words) and sum(word in words for word in key) >= KEY_SHARE * len(key)


def build_relevance_examples(run: RecordedRun, limit: int) -> Iterator[Example]:
    """Yield yes/no questions on relevance, made of chunks of evidence.

    Each turn gives at most ``limit`` chunks with the answer and ``limit`` without it.
    """
    prompt = Prompt(_RELEVANCE_PROMPT)
    for record, judged in run.answerable():
        evidence = (
            chunk for stage in reversed(record.stages) for chunk in stage.evidence
        )  # the last ones are the best
        chunks = dict.fromkeys(f"{chunk.title}: {chunk.text}" for chunk in evidence)
        counts: Counter[bool] = Counter()
        for chunk in islice(chunks, _MAX_EVIDENCE):
            right = run.holds_answer(chunk, judged.turn)
            counts[right] += 1
            if counts[right] > limit:
                continue
            request = prompt.request(question=record.question, information=chunk)
            yield run.example(
                judged,
                prompt=RELEVANCE,
                form=YES_NO.name,
                messages=build_messages(request, [record.photo]),
                reply="Yes" if right else "No",
                max_tokens=request.max_tokens,
            )


def write_collection(
    examples: Sequence[Example], out: Path, share: float, photos: Mapping[str, str] = MappingProxyType({})
) -> dict[str, list[Example]]:
    """Write both sides and the images they use; return the sides.

    Args:
        examples: The examples of both sides.
        out: Folder to write.
        share: Share of the photos to hold out.
        photos: Name of the photo by session; a session without one is held out by its id.
    """
    sides: dict[str, list[Example]] = {"train": [], "held_out": []}
    for example in examples:
        photo = photos.get(example.session_id, example.session_id)
        sides["held_out" if is_held_out(photo, share) else "train"].append(example)
    write_examples(out / TRAIN, sides["train"])
    write_examples(out / HELD_OUT, sides["held_out"])
    (out / IMAGES).mkdir(parents=True, exist_ok=True)
    for source in {example.folder / REQUEST_IMAGES / f"{name}.png" for example in examples for name in example.images}:
        shutil.copyfile(source, out / IMAGES / source.name)
    return sides


def merge_photos(runs: Sequence[RecordedRun]) -> dict[str, str]:
    """Return the name of the photo of each session of some runs; one name, if runs passed it in several sizes."""
    return {session: photo for run in reversed(runs) for session, photo in run.photos.items()}


def describe(examples: Sequence[Example], tokenizer: Any | None) -> dict[str, Any]:
    """Count the requests of one prompt; rates are 0 to 1, and tokens are counted if there is a tokenizer."""
    counts: dict[str, Any] = {
        "requests": len(examples),
        "turns": len({row.key for row in examples}),
        "images": sum(len(row.images) for row in examples),
        "prompts_cut": sum(row.prompt_cut > 0 for row in examples),
        "turn_verdicts": dict(sorted(Counter(row.verdict for row in examples).items())),
    }
    judged = [row.reply_verdict for row in examples if row.reply_verdict is not None]
    if judged:
        counts["reply_verdicts"] = dict(sorted(Counter(judged).items()))
        counts["refusals"] = round(judged.count("miss") / len(judged), 4)
    if tokenizer is not None:

        def tokens_in(texts: Iterable[str]) -> int:
            return sum(len(tokenizer.encode(text, add_special_tokens=False)) for text in texts)

        counts["prompt_tokens"] = tokens_in(message.content for row in examples for message in row.messages)
        counts["reply_tokens"] = tokens_in(row.reply for row in examples)
    return counts


class RunsOptions(JudgedOptions):
    """Options of every command that makes training data of recorded runs."""

    runs: Annotated[tuple[Path, ...], Flag(positional=True, metavar="RUN")] = Field(
        description="folder of a recorded and judged run"
    )
    dataset: Path | None = Field(
        None,
        description="local data sets, for the accept forms of the runs' questions, and whose public_test is kept out by content; "
        "default: by name only",
    )
    held_out: float = Field(0.1, gt=0, lt=1, description="share of the photos held out, with their sessions")
    revision: str = Field(DEFAULT_REVISION, description="data set revision")


def read_runs(options: RunsOptions) -> tuple[list[RecordedRun], Judge, dict[str, Any]]:
    """Read the records of the options' runs, the judge of replies, and facts for about.json.

    Raises:
        TrainingDataError, EvaluationError: A run cannot be used, or the data sets have no test split.
    """
    for folder in options.runs:
        check_split(read_manifest(folder), folder)  # before the data sets are read
    test = None
    if options.dataset is not None:
        test = read_test_content(options.dataset, options.revision, options.cache)
    judge = choose_judge(options.eval_model, cache=options.cache)
    about = {"runs": [str(run) for run in options.runs], "judge": judge.name, HELD_OUT_SHARE: options.held_out}
    runs = [read_run(run, test, make_accept_selector(run, options.dataset, options.cache)) for run in options.runs]
    return runs, judge, about


class CollectOptions(RunsOptions):
    """Options of the training data made of runs."""

    relevance: Annotated[int, Flag(metavar="N")] = Field(
        1, description="yes/no questions per turn on chunks with the answer, and as many on others"
    )
    tokenizer: Annotated[str | None, Flag(metavar="PATH")] = Field(
        None, description="tokenizer to count tokens with, a folder or ORG/NAME@COMMIT; default: none are counted"
    )


def run(options: CollectOptions) -> None:
    """Collect the examples, write and describe them.

    Raises:
        TrainingDataError, EvaluationError: A run cannot be used; the message says why.
    """
    runs, judge, about = read_runs(options)
    examples = [example for recorded in runs for example in collect_examples(recorded, judge)]
    if not examples:
        raise TrainingDataError("the runs have no request of a judged turn; judge the runs first")
    tokenizer = None
    if options.tokenizer is not None:
        from transformers import AutoTokenizer

        source, revision = split_revision(options.tokenizer)
        tokenizer = AutoTokenizer.from_pretrained(source, revision=revision, trust_remote_code=False)
    relevance = [example for recorded in runs for example in build_relevance_examples(recorded, options.relevance)]
    photos = merge_photos(runs)
    sides = write_collection([*examples, *relevance], options.out, options.held_out, photos)
    by_content = " and content" if options.dataset is not None else " alone"
    about["public_test"] = f"kept out by name{by_content}"
    about["unjudged_requests"] = sum(recorded.unjudged for recorded in runs)
    judged = [exchange for recorded in runs for record, _ in recorded.turns for exchange in record.exchanges]
    about["requests_without_reply"] = sum(not is_whole(exchange) for exchange in judged)
    for side, rows in sides.items():
        about[side] = {
            "sessions": len({row.session_id for row in rows}),
            "prompts": {
                prompt: describe([row for row in rows if row.prompt == prompt], tokenizer)
                for prompt in sorted({row.prompt for row in [*examples, *relevance]})
            },
        }
    write_about(options.out, about)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    return run_command(run, CollectOptions, arguments, __doc__)


if __name__ == "__main__":
    raise SystemExit(main())
