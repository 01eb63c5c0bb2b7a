"""The options of local_evaluation.py: the organiser's flags with their meanings, and ours."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, Self

from pydantic import BeforeValidator, Field, InstanceOf, model_validator

from agents.base.cache_folder import DEFAULT_CACHE, CacheOption
from agents.base.command_options import Flag, Options
from agents.settings.shared_options import ProbedModelOptions
from evaluation.judge.options import JudgeOptions
from evaluation.records import DEFAULT_REVISION, REPLIES
from evaluation.scores.metrics import MetricOptions

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

  an agent of the starter kit, in its own folder and under its own interpreter:
    python local_evaluation.py --agent-root ../my-fork --agent agents.my_agent:MyAgent --agent-python ../my-fork/.venv/bin/python

  an ablation: the preset without one of its stages, and with another setting:
    python local_evaluation.py --preset best --without reranking --set queries.fuse_entity=false
"""


SEARCHED: Final = "starter-kit"
PROVIDED: Final = "research-release"
"""How the agent is called: with a search pipeline when it is built, or without one and with evidence in each call."""

_BELOW_CACHE = Path()


@dataclass(frozen=True)
class ErrorLimit:
    """Number of errors that a run may have: a share of its turns, 0 to 1, or a count."""

    number: float
    is_share: bool

    def __str__(self) -> str:
        """Return the limit for people."""
        return f"{self.number:.4g}" if not self.is_share else f"{100 * self.number:.4g}%"

    def is_exceeded(self, errors: int, turns: int) -> bool:
        """Return whether so many errors of so many turns are too many."""
        return errors > self.number * (turns if self.is_share else 1)


DEFAULT_ERROR_LIMIT = ErrorLimit(0.05, is_share=True)


def parse_error_limit(text: object) -> ErrorLimit:
    """Parse a share, ``0.05`` or ``5%``, or a count, ``3``.

    Raises:
        ValueError: It has another form.
    """
    if isinstance(text, ErrorLimit):
        return text
    limit_text = str(text).strip()
    try:
        if limit_text.isdecimal():
            return ErrorLimit(float(limit_text), is_share=False)
        share = float(limit_text.removesuffix("%")) / (100 if limit_text.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise ValueError(
            f"{limit_text!r}; write a share of the turns, such as 0.05 or 5%, or a number of turns, such as 3"
        )
    return ErrorLimit(share, is_share=True)


GivenErrorLimit = Annotated[InstanceOf[ErrorLimit], BeforeValidator(parse_error_limit)]


@dataclass(frozen=True)
class Conversations:
    """Number of sessions asked of each data set, from the first; -1: all."""

    single_turn: int = -1
    multi_turn: int = -1

    def __str__(self) -> str:
        """Return the numbers as they are written on a command line."""
        return f"{self.single_turn},{self.multi_turn}"

    def limit(self, kind: DatasetType) -> int | None:
        """Return the number of sessions asked of a data set; None: all."""
        number = self.single_turn if kind == "single-turn" else self.multi_turn
        return None if number < 0 else number


def parse_conversations(text: object) -> Conversations:
    """Parse ``N`` sessions of each data set, or ``N,M``: single-turn and multi-turn.

    Raises:
        ValueError: It has another form.
    """
    if isinstance(text, Conversations):
        return text
    try:
        numbers = [int(word) for word in str(text).split(",")]
    except ValueError:
        numbers = []
    if len(numbers) not in (1, 2) or any(number == 0 or number < -1 for number in numbers):
        raise ValueError(f"{text!r}; write N, or N,M for single-turn and multi-turn; each positive, or -1 for all")
    return Conversations(numbers[0], numbers[-1])


GivenConversations = Annotated[InstanceOf[Conversations], BeforeValidator(parse_conversations)]


class AskedOptions(Options):
    """Questions that are asked."""

    group = "questions"

    dataset: Annotated[Path | None, Flag(metavar="PATH")] = Field(
        None,
        description="local folder with the data set, or your own questions in a .csv or .jsonl file (docs/own_knowledge.md); default: "
        "the questions of --knowledge, or the public data set from the hub",
    )
    knowledge: Annotated[Path | None, Flag(metavar="COLLECTION")] = Field(
        None, description="folder of your own photos and pages, searched in place of the indices of --split"
    )
    split: str = Field("validation", description="split of the data set: validation or public_test")
    revision: str = Field(DEFAULT_REVISION, description="revision of the data set: v0.1.1 or v0.1.2")
    num_conversations: Annotated[GivenConversations, Flag(metavar="N[,M]")] = Field(
        Conversations(),
        description="ask only the first N sessions of each data set; N,M: N of single-turn, M of multi-turn; -1: all",
    )
    balanced: Annotated[int | None, Flag(metavar="SEED")] = Field(
        None,
        description="ask N sessions drawn by this seed, equally many of each kind of question, in place of the first N",
    )

    @property
    def own_questions(self) -> Path | None:
        """File of one's own questions that is asked; None: a data set in the organiser's layout.

        Raises:
            EvaluationError: The folder that should hold it has none, or two.
        """
        from evaluation.data.question_files import find_questions, require_questions

        if self.dataset is not None:
            return find_questions(self.dataset)
        return None if self.knowledge is None else require_questions(self.knowledge)


class AgentOptions(ProbedModelOptions):
    """The agent that answers, and how it is called."""

    group = "agent"

    profile: str = Field(
        "embedded", description="models and time limits: a file in profiles/ by its name, or any .toml file by its path"
    )
    agent: Annotated[str, Flag(metavar="MODULE:CLASS")] = Field(
        "agents.user_config:UserAgent",
        description="class of the agent. One derived from CragAgent runs --preset under --profile; any other "
        "BaseAgent is built as the organiser builds it, and takes only the search from --profile",
    )
    set: Annotated[tuple[str, ...], Flag(metavar="KEY=VALUE", repeated=True)] = Field(
        (),
        description="replace a setting of the preset, such as queries.split=none or answer.k=4; null: no value; may be repeated. "
        "A setting of a stage that the preset does not have is refused; where several presets are run each has to have it",
    )
    suppress_web_search_api: bool = Field(False, description="no web search, as in task 1 (single-source)")
    suppress_image_search_api: bool = Field(False, description="no image search")
    calls: Literal["starter-kit", "research-release"] = Field(
        SEARCHED,
        description="how the agent is called: it gets the search pipeline and searches, as in the challenge; or it is built "
        "without one and each call brings the evaluation's search results, as in the research release",
    )
    cache: CacheOption = Field(DEFAULT_CACHE, description="folder for indices, models, images and judgements")
    tokenizer: Annotated[str | None, Flag(metavar="ID_OR_PATH")] = Field(
        None,
        description="tokenizer that cuts answers at 75 tokens, one of them for the begin of text; default: Llama-3.2's, "
        "or another one if that is not available",
    )
    max_failures: Annotated[int, Flag(metavar="N")] = Field(
        3,
        ge=0,
        description="stop after N calls in a row with a failure on every turn, or N answers in a row without a verdict; these are not "
        "kept, so that --resume asks them again; 0: never",
    )
    fail_on_error: Annotated[GivenErrorLimit, Flag(metavar="SHARE_OR_COUNT")] = Field(
        DEFAULT_ERROR_LIMIT,
        description="end with status 1 if more turns than this are errors or not judged: a share such as 0.05 or 5%, or a count. Their "
        "answers are kept; --resume asks them again",
    )
    reply_cache: Annotated[Path | None, Flag(metavar="DIR", bare=_BELOW_CACHE)] = Field(
        None,
        description="keep the chat model's replies to requests at temperature 0 or with a seed, and do not ask those again; "
        f"without DIR in {REPLIES}/ below --cache. Calls answered from it are left out of the seconds a turn",
    )

    @property
    def reply_folder(self) -> Path | None:
        """Folder of ``--reply-cache``; None without the flag."""
        return self.cache / REPLIES if self.reply_cache == _BELOW_CACHE else self.reply_cache


class RunJudgeOptions(JudgeOptions, MetricOptions):
    """The judge of a run's answers."""

    group = "judge"

    eval_model: Annotated[str | None, Flag(metavar="MODEL")] = Field(
        None,
        description="judge, by an OpenAI-compatible server (OPENAI_API_KEY, OPENAI_BASE_URL); "
        '"rule": the rule judge; "local" or "local:PROFILE": the chat model of embedded or of that profile, with no server; '
        '"bem:PATH": a checkpoint of answer equivalence (docs/judges.md); '
        '"None": the rule judge, or by the rules of a release exact answers alone; "package.module:Class": a judge of your own '
        "(docs/extending.md); not given: the rule judge, also if OPENAI_API_KEY is set. A server that has not "
        "replied at all for 300 s is given up",
    )

    @model_validator(mode="after")
    def _check_judge(self) -> Self:
        self.refuse_idle(self.eval_model)
        return self


class DatasetOptions(AskedOptions):
    """Questions that are asked, and their data set."""

    group = "questions"

    dataset_type: Literal["single-turn", "multi-turn", "both"] = Field(
        "single-turn",
        description="which data set; both: one after the other, each in a folder of its own in --output-dir",
    )
    diagnostics: Literal["original", "disambiguated", "cropped", "named", "text-only"] | None = Field(
        None,
        description="ask CRAG-MM-Diagnostics in this form in place of CRAG-MM (docs/diagnostics.md); --dataset is a copy of it, "
        "--split that of the indices",
    )


class PresetOptions(AgentOptions):
    """The agent that answers, and its preset."""

    group = "agent"

    preset: str = Field(
        "best", description="preset of the agent: a file in presets/ by its name, or any .toml file by its path"
    )
    without: Annotated[tuple[str, ...], Flag(metavar="STAGE", repeated=True)] = Field(
        (), description="leave a stage of the preset out; may be repeated"
    )
    gold_entity: bool = Field(
        False,
        description="pass the graph's entry of the true entity in place of search results, under --calls research-"
        "release and --diagnostics",
    )
    full_query_path: Annotated[Path | None, Flag(metavar="FILE")] = Field(
        None,
        description="web queries of the evaluation in place of the questions, under --calls research-release: "
        "JSON lines with interaction_id and agent_response",
    )


class ForeignAgentOptions(Options):
    """An agent of another repository, in a process of its own."""

    group = "agent of another repository"

    agent_root: Annotated[Path | None, Flag(metavar="DIR")] = Field(
        None,
        description="repository of --agent, such as a fork of the starter kit: the agent runs in a process of its "
        "own, in this folder and with its packages, and prints to agent.log in --output-dir",
    )
    agent_python: Annotated[Path | None, Flag(metavar="FILE")] = Field(
        None, description="interpreter of that process; default: .venv/bin/python in --agent-root, or this one"
    )
    agent_seconds: Annotated[float, Flag(metavar="S")] = Field(
        60.0,
        gt=0,
        description="seconds per turn until that process counts as hung: it is killed, and started again for the next batch. The challenge "
        "allows 10",
    )
    agent_memory: Annotated[float | None, Flag(metavar="GB")] = Field(
        None, gt=0, description="memory limit of that process; not given: none. The challenge has 32"
    )


class RunOptions(DatasetOptions, PresetOptions, ForeignAgentOptions, RunJudgeOptions):
    """Run the CRAG-MM agent over a data set and score its answers."""

    group = "run"

    mode: Literal["generate", "evaluate", "both"] = Field("both", description="answer, judge saved answers, or both")
    input_file: Annotated[Path | None, Flag(metavar="FILE")] = Field(
        None, description="saved answers for --mode evaluate; not given: response.jsonl in --output-dir"
    )
    output_dir: Path = Field(Path("results"), description="folder for answers, scores and report")
    resume: bool = Field(
        False, description="continue the run in --output-dir; answers without a verdict are judged again"
    )
    record_requests: bool = Field(
        False,
        description="keep each request to a chat model in trace.jsonl, with its pictures in request_images/, for "
        "python -m training.collect. The same as --set trace.requests=true",
    )
    replicas: Annotated[int | None, Flag(metavar="N")] = Field(
        None,
        ge=1,
        description="answer with N agents side by side, each in a process that Ray starts (docs/scale.md); not given: one, in "
        "this process",
    )
    ray_address: Annotated[str | None, Flag(metavar="HOST:PORT")] = Field(
        None, description="Ray cluster for --replicas, or auto; not given: start one on this machine"
    )
    display_conversations: Annotated[int | None, Flag(metavar="N")] = Field(
        None, description="print the first N dialogs; not given: 0, by the rules of a release 10"
    )
    no_progress: Annotated[bool, Flag(names=("--no_progress", "--no-progress"))] = Field(
        False, description="no progress bars"
    )
    no_report: bool = Field(False, description="write no report.html")

    @model_validator(mode="after")
    def _fit_together(self) -> RunOptions:
        wrong = {
            "--calls research-release takes one agent, no --replicas": self.calls == PROVIDED
            and self.replicas is not None,
            "--diagnostics asks single questions; leave --dataset-type out": self.diagnostics is not None
            and self.dataset_type != "single-turn",
            "--gold-entity goes with --diagnostics, which knows the entity, and --calls research-release": self.gold_entity
            and (self.diagnostics is None or self.calls != PROVIDED),
            "--agent-root takes one agent, no --replicas": self.agent_root is not None and self.replicas is not None,
            "--agent-python, --agent-seconds and --agent-memory go with --agent-root": self.agent_root is None
            and not {"agent_python", "agent_seconds", "agent_memory"}.isdisjoint(self.model_fields_set),
            "--agent-root with --calls research-release takes one data set: the release builds an agent for each": (
                self.agent_root is not None and self.calls == PROVIDED and self.dataset_type == "both"
            ),
            "--ray-address goes with --replicas": self.ray_address is not None and self.replicas is None,
            "--input-file goes with --mode evaluate": self.input_file is not None and self.mode != "evaluate",
            "--input-file goes with one data set; judge the two files one after the other": self.input_file is not None
            and self.dataset_type == "both",
        }
        for message in (message for message, holds in wrong.items() if holds):
            raise ValueError(message)
        return self

    @property
    def displayed(self) -> int:
        """Number of dialogs that are printed."""
        return self.rules.displayed if self.display_conversations is None else self.display_conversations

    @property
    def folders(self) -> list[tuple[DatasetType, Path]]:
        """Data sets to ask, each with the folder of its answers."""
        if self.own_questions is not None:
            return [("single-turn", self.output_dir)]
        if self.dataset_type != "both":
            return [(self.dataset_type, self.output_dir)]
        return [("single-turn", self.output_dir / "single-turn"), ("multi-turn", self.output_dir / "multi-turn")]


def parse(arguments: Sequence[str] | None = None) -> RunOptions:
    """Read and check the command line; exit with a message if it is wrong.

    Nothing heavy is imported for ``--help``.
    """
    return RunOptions.parse(arguments, prog=Path(sys.argv[0]).name, epilog=_EXAMPLES)
