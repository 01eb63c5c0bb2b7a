"""The command line of local_evaluation.py: the organiser's flags with their meanings, and ours."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from evaluation.judge.judge_options import add_judge_options
from evaluation.records import DEFAULT_REVISION
from evaluation.rules import RULES

if TYPE_CHECKING:
    from evaluation.data.crag_dataset import DatasetType

_EXAMPLES = """examples:
  answer and judge the first 20 dialogs of a local copy of the mini set, by rule, on a laptop:
    python local_evaluation.py --dataset-type multi-turn --dataset .cache/datasets --num-conversations 20

  the public validation split with OpenAI's judge (key in OPENAI_API_KEY), task 1 (no web search):
    python local_evaluation.py --dataset-type single-turn --profile gpu --suppress-web-search-api --eval-model gpt-4o-mini

  with four agents side by side, on this machine or on a Ray cluster:
    python local_evaluation.py --dataset-type both --dataset .cache/datasets --replicas 4 --ray-address 10.0.0.1:6379

  continue an interrupted run:
    python local_evaluation.py --dataset-type multi-turn --output-dir results/mine --resume

  judge saved answers again with another judge:
    python local_evaluation.py --mode evaluate --input-file results/mine/response.jsonl --eval-model gpt-4o

  both sets with one agent: single-turn/ and multi-turn/ under the output folder, one report:
    python local_evaluation.py --dataset-type both --dataset .cache/datasets --split public_test

  the first 8 questions and the first 4 dialogs, replies of the chat model kept for the next run:
    python local_evaluation.py --dataset-type both --dataset .cache/datasets --num-conversations 8,4 --reply-cache

  saved answers scored as the challenge's starter kit scores them:
    python local_evaluation.py --rules starter-kit --mode evaluate --input-file results/mine/response.jsonl --eval-model gpt-4o-mini

  an ablation: the preset without one of its stages, and with another setting:
    python local_evaluation.py --preset best --without rerank --set queries.fuse_entity=false
"""


REPLIES = "replies"
"""Folder below ``--cache`` for ``--reply-cache`` without a folder of its own."""

SEARCHED, PROVIDED = "starter-kit", "research-release"
"""How the agent is called: with a search pipeline when it is built, or without one and with evidence in each call."""

_BELOW_CACHE = Path()
Group = argparse._ArgumentGroup


@dataclass(frozen=True)
class Conversations:
    """How many sessions of each data set are asked, from the first; -1: all."""

    single_turn: int = -1
    multi_turn: int = -1

    def __str__(self) -> str:
        """As it is written on a command line."""
        return f"{self.single_turn},{self.multi_turn}"

    def of(self, kind: DatasetType) -> int | None:
        """Where the sessions asked of a data set end; None for all of them."""
        number = self.single_turn if kind == "single-turn" else self.multi_turn
        return None if number < 0 else number


def conversations(text: str) -> Conversations:
    """``N`` sessions of each data set, or ``N,M``: single-turn and multi-turn.

    Raises:
        argparse.ArgumentTypeError: Something else.
    """
    try:
        numbers = [int(word) for word in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) not in (1, 2) or any(number == 0 or number < -1 for number in numbers):
        raise argparse.ArgumentTypeError(
            f"{text!r}; write N, or N,M for single-turn and multi-turn; each positive, or -1 for all"
        )
    return Conversations(numbers[0], numbers[-1])


def add_run_options(what: Group, who: Group, judge: Group, *, limit_of: str = "this command") -> None:
    """The flags that mean the same to local_evaluation.py and to the commands that compare runs; ``--max-cost`` is for ``limit_of``."""
    # fmt: off
    add = what.add_argument
    add("--dataset", type=Path, metavar="PATH", help="local folder with the data set; None: the public one from the hub")
    add("--split", default="validation", help="split of the data set: validation or public_test")
    add("--revision", default=DEFAULT_REVISION, help="revision of the data set: v0.1.1 or v0.1.2")
    add("--num-conversations", type=conversations, default=Conversations(), metavar="N[,M]",
        help="ask only the first N sessions of each data set; N,M: N of single-turn, M of multi-turn; -1: all")
    add = who.add_argument
    add("--profile", default="embedded", help="models and time limits: a file in profiles/ by its name, or any .toml file by its path")
    add("--agent", default="agents.user_config:UserAgent", metavar="MODULE:CLASS",
        help="class of the agent. One derived from CragAgent runs --preset under --profile; any other BaseAgent is built as the "
             "organiser builds it, with the search of --profile alone")
    add("--set", action="append", default=[], metavar="KEY=VALUE",
        help="replace a setting of the preset, such as queries.split=none or rerank.k=4; null: no value; may be repeated")
    add("--suppress-web-search-api", action="store_true", help="no web search, as in task 1 (single-source)")
    add("--suppress-image-search-api", action="store_true", help="no image search")
    add("--calls", choices=[SEARCHED, PROVIDED], default=SEARCHED,
        help="how the agent is called: it gets the search pipeline and searches, as in the challenge; or it is built without "
             "one and each call brings what the evaluation found, as in the research release")
    add("--cache", type=Path, default=Path(".cache"), help="folder for indices, models, images and judgements")
    add("--tokenizer", metavar="ID_OR_PATH",
        help="tokenizer that cuts answers at 75 tokens, the first of which begins the text; None: Llama-3.2's, else "
             "a stand-in")
    add("--reply-cache", type=Path, nargs="?", const=_BELOW_CACHE, metavar="DIR",
        help="keep the chat model's replies to requests at temperature 0 or with a seed, and do not ask those again; "
             f"without DIR in {REPLIES}/ below --cache. Seconds a turn are reported for calls that took nothing from it")
    add = judge.add_argument
    add("--rules", choices=list(RULES), default="ours",
        help="whose rules hold for order, images, scores, tables and the defaults below: ours or a release's "
             "(docs/evaluation.md)")
    add("--eval-model", metavar="MODEL",
        help="judge, by an OpenAI-compatible server (OPENAI_API_KEY, OPENAI_BASE_URL); "
             '"rule": the rule judge; "local" or "local:PROFILE": the chat model of embedded or of that profile, with no server; '
             '"None": the rule judge, or by the rules of a release exact answers alone; "package.module:Class": a judge of your own '
             "(docs/extending.md); not given: gpt-4o-mini "
             "(gpt-4o by the rules of the research release) if OPENAI_API_KEY is set, else the rule judge. A server that has not "
             "replied at all for 300 s is given up")
    add_judge_options(judge, limit_of=limit_of)
    add("--num-workers", type=int, metavar="N", help="judgements asked for at the same time; None: 8, research release 1")
    # fmt: on


def reply_cache(options: argparse.Namespace) -> Path | None:
    """The folder of ``--reply-cache``; None where the flag was not given."""
    folder: Path | None = options.reply_cache
    return options.cache / REPLIES if folder == _BELOW_CACHE else folder


class _Formatter(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Default values in the help, and the examples as they are written."""


def build_parser() -> argparse.ArgumentParser:
    """The parser; nothing heavy is imported for ``--help``."""
    about = "Run the CRAG-MM agent over a data set and score its answers."
    parser = argparse.ArgumentParser(description=about, epilog=_EXAMPLES, formatter_class=_Formatter)
    names = ("what is asked", "who answers", "who judges", "the run")
    what, agent, judge, run = (parser.add_argument_group(name) for name in names)
    # fmt: off
    what.add_argument("--dataset-type", choices=["single-turn", "multi-turn", "both"], default="single-turn",
                      help="which data set; both: one after the other, each in a folder of its own in --output-dir")
    add = agent.add_argument
    add("--preset", default="best", help="preset of the agent: a file in presets/ by its name, or any .toml file by its path")
    add("--model-name", metavar="ID_OR_PATH",
        help="weights, or model of a server, in place of those of the profile's chat model")
    add(
        "--without",
        action="append",
        default=[],
        metavar="STAGE",
        help="leave a stage of the preset out; may be repeated",
    )
    add("--full-query-path", type=Path, metavar="FILE",
        help="queries that the evaluation searches the web by instead of the questions, under --calls research-release: JSON lines "
             "with interaction_id and agent_response")
    add_run_options(what, agent, judge)
    add = run.add_argument
    add("--mode", choices=["generate", "evaluate", "both"], default="both", help="answer, judge saved answers, or both")
    add("--input-file", type=Path, metavar="FILE",
        help="saved answers for --mode evaluate; None: response.jsonl in --output-dir")
    add("--output-dir", type=Path, default=Path("results"), help="folder for answers, scores and report")
    add(
        "--resume",
        action="store_true",
        help="continue the run in --output-dir; what the judge failed on is judged again",
    )
    add("--record-requests", action="store_true",
        help="trace.jsonl holds each request to a chat model as the model received it, with the pictures in request_images/: what "
             "python -m training.collect makes training data of. The same as --set trace.requests=true")
    add("--replicas", type=int, metavar="N",
        help="answer with N agents side by side, each in a process that Ray starts (docs/scale.md); "
             "None: one, in this process")
    add("--ray-address", metavar="HOST:PORT",
        help="Ray cluster on which --replicas run, or auto; None: one is started on this machine")
    add("--display-conversations", type=int, metavar="N",
        help="print the first N dialogs; None: 0, by the rules of a release 10")
    add("--no_progress", "--no-progress", action="store_true", help="no progress bars")
    add("--no-report", action="store_true", help="write no report.html")
    # fmt: on
    return parser


def parse(arguments: Sequence[str] | None = None, **given: object) -> argparse.Namespace:
    """Read and check the command line; exits with a message on bad combinations. ``rules`` is a ``Rules`` then.

    Args:
        given: Options of another command, by their names here, which stand above the command line.
    """
    parser = build_parser()
    options = parser.parse_args(arguments)
    vars(options).update(given)
    options.rules = RULES[options.rules]
    if options.num_workers is None:
        options.num_workers = options.rules.judge_workers
    if options.display_conversations is None:
        options.display_conversations = options.rules.displayed
    wrong = {
        "--num-workers must be at least 1": options.num_workers < 1,
        "--replicas must be at least 1": options.replicas is not None and options.replicas < 1,
        "--calls research-release takes one agent, no --replicas": options.calls == PROVIDED
        and options.replicas is not None,
        "--ray-address goes with --replicas": options.ray_address is not None and options.replicas is None,
        "--input-file goes with --mode evaluate": options.input_file is not None and options.mode != "evaluate",
        "--input-file goes with one data set; judge the two files one after the other": options.input_file is not None
        and options.dataset_type == "both",
    }
    for message in (message for message, holds in wrong.items() if holds):
        parser.error(message)
    return options


def data_folders(options: argparse.Namespace) -> list[tuple[DatasetType, Path]]:
    """The data sets to ask, each with the folder of its answers."""
    if options.dataset_type != "both":
        return [(options.dataset_type, options.output_dir)]
    return [("single-turn", options.output_dir / "single-turn"), ("multi-turn", options.output_dir / "multi-turn")]
