"""Share of replies to each prompt that keep its format, so that the stage that asked can parse them.

    python -m lab.benchmarks.readable_replies --presets best,cruise --num-conversations 20

The first single-turn questions go through each preset with the real models of the profile; every reply is read by the parser
of the stage that asked for it. A prompt whose replies cannot be read is a fault of the prompt or of its parser. So is an example in a
prompt whose words come back as the answer. The exit status is 1 if fewer than ``--minimum`` percent can be read and are the model's own.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field
from rich.console import Console

from agents.asking.ask import Answer, Question
from agents.base.command_options import Flag
from agents.crag_agent import CragAgent
from agents.profiles.profile import PROMPTS
from agents.settings.run_config import RunConfig, preset_names
from agents.stage import Context, T
from agents.time_limits.deadline import Deadline
from evaluation.commands import make_console
from lab.benchmarks.common import ProfileOptions, build_table, run
from mini_crag_mm.loader import PreparedSet, write_lines
from tests.support.read_replies import as_json, is_copied

_NO_LIMIT = ("limits.seconds_per_turn=3600", "limits.seconds_per_dialog=36000")  # no reply is to be cut by the clock


@dataclass
class Count:
    """Counts of the replies to one prompt under one preset."""

    preset: str
    prompt: str
    replies: int = 0
    readable: int = 0
    copied: int = 0  # readable ones that say what the prompt itself says
    cut: int = 0
    examples: list[str] = field(default_factory=list)
    replies_read: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def share(self) -> float:
        """Share of replies that can be read, 0 to 1."""
        return self.readable / self.replies if self.replies else 1.0

    @property
    def own(self) -> float:
        """Share of replies that can be parsed and repeat nothing of the prompt's template, 0 to 1."""
        return (self.readable - self.copied) / self.replies if self.replies else 1.0


@dataclass(frozen=True, kw_only=True)
class ReadContext(Context):
    """Context that passes each answer on, with the name of its prompt."""

    take: Callable[[str, Answer[Any]], None]

    def put(self, questions: Sequence[Question[T]], deadline: Deadline | None = None) -> list[Answer[T]]:
        """Ask as the stages do."""
        answers = super().put(questions, deadline)
        for question, answer in zip(questions, answers, strict=True):
            self.take(question.ask.prompt, answer)
        return answers


def count_replies(preset: str, options: ReadableOptions, console: Console) -> list[Count]:
    """Ask the first single-turn questions and read every reply.

    Raises:
        One of ``common.FAILURES``: Something is missing.
    """
    mini = PreparedSet(options.split, options.cache)
    pipeline = mini.search(options.profile)
    from agents.models.reply_cache import ReplyStore

    replies = ReplyStore(options.reply_cache) if options.reply_cache is not None else None
    config = RunConfig.read(preset, options.profile, overrides=_NO_LIMIT, cache=options.cache)
    agent = CragAgent.from_config(config, pipeline, replies=replies)
    counts: dict[str, Count] = {}

    def take(name: str, answer: Answer[Any]) -> None:
        finish = answer.reply.finish_reason
        if finish in ("abort", "error"):
            return
        count = counts.setdefault(name, Count(preset, name))
        count.replies += 1
        count.cut += finish == "length"
        value = as_json(answer.value) if answer.readable else None
        count.replies_read[answer.text] = {"prompt": name, "reply": answer.text, "finish": finish, "read": value}
        if answer.readable:
            count.readable += 1
            count.copied += is_copied(value, (PROMPTS / f"{name}.j2").read_text(encoding="utf-8"))
        elif len(count.examples) < options.examples:
            count.examples.append(answer.text)

    agent.pipeline.context = ReadContext(**vars(agent.pipeline.context), take=take)
    turns = list(mini.turns(options.num_conversations, kinds=["single-turn"]))
    for start in range(0, len(turns), agent.get_batch_size()):
        batch = turns[start : start + agent.get_batch_size()]
        agent.batch_generate_response([each.turn.query for each in batch], [each.image for each in batch])
    console.print(f"{preset}: {sum(each.replies for each in counts.values())} replies read", highlight=False)
    return [counts[name] for name in sorted(counts)]


def _measure(options: ReadableOptions) -> int:
    console = make_console()
    presets = options.presets.split(",") if options.presets != "all" else preset_names()
    results = [each for preset in presets for each in count_replies(preset, options, console)]
    title = f"Replies that can be read, {options.num_conversations} {options.split} questions, {options.profile}"
    headings = ("preset", "prompt", "replies", "readable", "copied from the prompt", "cut by the limit")
    rows = [
        (one.preset, one.prompt, str(one.replies), f"{100 * one.share:.0f}%", str(one.copied), str(one.cut))
        for one in results
    ]
    console.print(build_table(title, headings, rows, left_columns=2))
    for each in results:
        for text in each.examples:
            console.print(f"{each.preset}, {each.prompt}, not readable: {text!r}", markup=False, soft_wrap=True)
    if options.out is not None:
        counts = [{name: value for name, value in asdict(each).items() if name != "replies_read"} for each in results]
        options.out.write_text(json.dumps(counts, indent=2, ensure_ascii=False) + "\n")
    if options.replies is not None:
        lines = {line["prompt"] + text: line for each in results for text, line in each.replies_read.items()}
        write_lines(options.replies, lines.values())
    return int(any(100 * each.own < options.minimum for each in results))


class ReadableOptions(ProfileOptions):
    """Options of whose replies are counted, and how many of them have to be readable."""

    presets: Annotated[str, Flag(metavar="A,B")] = Field("all", description="presets to run")
    num_conversations: Annotated[int, Flag(metavar="N")] = Field(20, description="questions")
    minimum: Annotated[float, Flag(metavar="PERCENT")] = Field(
        95.0, description="share that has to be readable and not copied from the prompt"
    )
    examples: Annotated[int, Flag(metavar="N")] = Field(3, description="unreadable replies shown of each prompt")
    reply_cache: Annotated[Path | None, Flag(metavar="DIR")] = Field(
        None, description="keep replies in this folder and take them from it"
    )
    replies: Annotated[Path | None, Flag(metavar="FILE")] = Field(
        None,
        description="also write each different reply with what was read (JSON lines): candidates for tests/agent/real_replies.jsonl",
    )
    out: Annotated[Path | None, Flag(metavar="FILE")] = Field(
        None, description="also write the counts and examples as JSON"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Count, print and write.

    Returns:
        0; 1 if too few replies can be read; 2 if it cannot be measured.
    """
    return run(_measure, ReadableOptions, arguments, __doc__)


if __name__ == "__main__":
    sys.exit(main())
