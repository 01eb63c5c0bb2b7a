"""Add paraphrases of the ground truths to collected training data.

    python -m training.paraphrases --data data/training --profile embedded_batch --eval-model rule

BlackPearl trained so for task 1 (arXiv 2507.21520). A chat model says the ground truth of each turn of ``train.jsonl`` in other words.
Each paraphrase that the judge calls right becomes a row of that file, an answer to the turn's own request. The held-out side stays as it
is. ``paraphrases.json`` counts them. A second call replaces the rows of the call before, and asks only what the reply cache lacks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from agents.asking.ask import Answer, Ask, Question, put
from agents.asking.readers.answers import ANSWER
from agents.asking.readers.fields import paraphrases_form
from agents.base.cache_folder import DEFAULT_CACHE, CacheOption
from agents.base.command_options import Flag, Options
from agents.models.base import ChatReply
from agents.models.reply_cache import ReplyStore
from agents.settings.run_config import RunConfig
from evaluation.judge.judging import Judge, choose_judge
from evaluation.records import REPLIES
from evaluation.scores.scoring import is_miss
from training.chat_examples import PARAPHRASE, TRAIN, Example, TrainingDataError, read_examples, write_examples
from training.collect import judge_replies, select_questions
from training.command_line import run_command, write_about

COUNTS = "paraphrases.json"


@dataclass(frozen=True)
class Paraphraser:
    """The chat model of a profile, which says answers in other words; ``replies`` keeps its replies."""

    config: RunConfig
    replies: ReplyStore
    limit: int  # paraphrases of one answer

    def __call__(self, turns: Sequence[Example]) -> tuple[str, list[Answer[list[str]]]]:
        """Paraphrase the ground truth of each turn.

        The model is asked in batches of the profile's size, each of which a stopped call need not ask again.

        Returns:
            The name of the model, and its paraphrases of each ground truth.

        Raises:
            ModelError: The model cannot answer at all.
        """
        models, ask = self.config.models(replies=self.replies), Ask(PARAPHRASE, paraphrases_form(self.limit))
        model_questions = [
            Question(ask, {"question": turn.query, "answer": turn.ground_truth, "limit": self.limit}) for turn in turns
        ]
        size = self.config.settings.limits.batch_size
        batches = [model_questions[start : start + size] for start in range(0, len(model_questions), size)]
        answers = [answer for batch in batches for answer in put(batch, self.config.prompts, models.chat)]
        return models.chat().name, answers


def select_turns(examples: Sequence[Example]) -> list[Example]:
    """Return an example of each turn whose question has an answer, in the order of the examples."""
    first = {row.key: row for row in reversed(examples) if not is_miss(row.ground_truth)}
    return list(reversed(first.values()))


def select_right(
    turns: Sequence[Example], paraphrases: Sequence[Sequence[str]], judge: Judge
) -> tuple[dict[tuple[str, str], list[str]], Counter[str]]:
    """Return the paraphrases that the judge calls right, by turn, and the count of each verdict."""
    pairs = [(turn, text) for turn, texts in zip(turns, paraphrases, strict=True) for text in texts]
    judged = judge_replies([turn for turn, _ in pairs], [ChatReply(text, "stop") for _, text in pairs], judge)
    right: dict[tuple[str, str], list[str]] = {}
    for (turn, text), judged_turn in zip(pairs, judged, strict=True):
        if judged_turn.correct:
            right.setdefault(turn.key, []).append(text)
    return right, Counter(judged_turn.verdict for judged_turn in judged)


def build_rows(
    examples: Sequence[Example], right: Mapping[tuple[str, str], Sequence[str]], model: str
) -> list[Example]:
    """Combine each request of a turn with each of its paraphrases as the right reply, once.

    A paraphrase equal to the example's own reply is left out. The paraphrase replaces the ground truth too, so that it is learned whichever
    of the two a recipe trains on.
    """
    rows = (
        example.with_reply(text, prompt=PARAPHRASE, ground_truth=text, reply_verdict="correct", model=model)
        for example in examples
        for text in right.get(example.key, ())
        if text != example.reply
    )
    return list(dict.fromkeys(rows))


class ParaphraseOptions(Options):
    """Options of what is paraphrased, and by whom."""

    data: Path = Field(description=f"folder that training.collect wrote; its {TRAIN} gets the paraphrases")
    profile: str = Field("embedded", description="profile whose chat model writes them")
    paraphrases: Annotated[int, Flag(metavar="N")] = Field(20, ge=1, description="paraphrases of each ground truth")
    only_right: bool = Field(
        False,
        description="paraphrase only where the model was right, so that no question is taught with an answer and a refusal",
    )
    eval_model: Annotated[str | None, Flag(metavar="MODEL")] = Field(
        None, description="judge of the paraphrases (see local_evaluation.py)"
    )
    cache: CacheOption = Field(DEFAULT_CACHE, description="folder of replies, judgements and weights")


def run(options: ParaphraseOptions) -> None:
    """Ask for paraphrases, judge, write and count them.

    Raises:
        One of ``command_line.FAILURES``: Data, model or judge cannot be used.
    """
    judge = choose_judge(options.eval_model, cache=options.cache)
    collected = [row for row in read_examples(options.data / TRAIN) if row.prompt != PARAPHRASE]
    whole = (
        row for row in select_questions(collected) if row.form == ANSWER.name
    )  # a sentence is no reply to who asks for a word
    answering = [row for row in whole if row.reply_verdict == "correct" or not options.only_right]
    turns = select_turns(answering)
    if not turns:
        raise TrainingDataError(
            f"{options.data / TRAIN} contains no question with an answer to paraphrase; "
            "collect examples with python -m training.collect"
        )
    config = RunConfig.read(
        "vlm_only", options.profile, cache=options.cache
    )  # any preset: only the profile's part is used
    model, answers = Paraphraser(config, ReplyStore(options.cache / REPLIES), options.paraphrases)(turns)
    right, verdicts = select_right(turns, [answer.value for answer in answers], judge)
    rows = build_rows(answering, right, model)
    write_examples(options.data / TRAIN, [*collected, *rows])
    counts: dict[str, Any] = {
        "model": model,
        "judge": judge.name,
        "ground_truths": len(turns),
        "unreadable_replies": sum(not answer.readable for answer in answers),
        "verdicts": dict(sorted(verdicts.items())),
        "rows": {"collected": len(collected), PARAPHRASE: len(rows)},
    }
    write_about(options.data, counts, COUNTS)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    return run_command(run, ParaphraseOptions, arguments, __doc__)


if __name__ == "__main__":
    raise SystemExit(main())
