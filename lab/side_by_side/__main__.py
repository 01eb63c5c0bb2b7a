"""The starter kit's agents and our presets over the same questions with the same language model: seconds, calls, tokens, truthfulness.

    python -m lab.side_by_side --kit ../starter-kit --presets direct_rag best --num-conversations 16 --out results/side_by_side

The questions are single-turn ones of the mini set, balanced by kind. The language model is the GGUF of ``embedded`` behind llama.cpp's
server, or the one of ``--base-url``. A server in between counts what passes. The model does not see: presets have the recogniser and the
OCR of ``embedded``, and the kit's agents get their prompts without the picture. Agents of the kit run unmodified, each in a process of its
own, with ``kit_modules/vllm.py`` in place of vLLM.

Answers and figures of an agent stand in a folder of ``--out``; an agent that is done there, with the same questions and model, is not run
again.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from PIL import Image
from pydantic import Field, TypeAdapter, ValidationError

from agents.base.command_options import Flag
from agents.base.files import write_whole
from agents.base_agent import BaseAgent
from agents.crag_agent import CragAgent
from agents.settings.run_config import RunConfig
from evaluation.commands import make_console
from evaluation.data.sampling import draw_balanced
from evaluation.files.manifest import current_commit
from evaluation.judge.judging import judge_turns
from evaluation.judge.rule_judge import RuleJudge
from evaluation.run.foreign_agent import ForeignAgent, ForeignAgentPlace, find_python
from evaluation.run.generate import generate
from evaluation.run.truncation import load_truncator
from evaluation.scores.scoring import bootstrap_intervals, score
from evaluation.studies.result_tables import format_interval
from lab.benchmarks.common import BenchmarkOptions, build_table, run
from lab.side_by_side.counted_server import CountingServer, Counts
from lab.side_by_side.machine import MachineLimits
from mini_crag_mm.loader import PreparedSet

ROW = "row.json"
HEADINGS = (
    "agent",
    "s a turn",
    "model calls",
    "new prompt tokens",
    "reused",
    "reply tokens",
    "pictures searched",
    "texts searched",
    "right",
    "missing",
    "wrong",
    "errors",
    "truthfulness, % [95%]",
)
KIT_MODULES = Path(__file__).resolve().parent / "kit_modules"
MODEL = "qwen2.5-coder-1.5b-instruct-q4_k_m"  # the name of its file: by it presets find their gate

_PROFILE = """extends = "embedded"
same_machine = true

[models.chat]
kind = "composed"
text = {{ kind = "openai", model = "{model}", base_url = "{url}" }}
recogniser = {{ kind = "efficientnet-lite2" }}
ocr = {{ kind = "rapidocr" }}

[models.small_chat]
kind = "openai"
model = "{model}"
base_url = "{url}"
"""
_SLOT_TOKENS = 8192  # the kit's own limit of prompt and reply


@dataclass
class CountedSearch:
    """Search pipeline that counts its queries."""

    behind: Any
    pictures: int = 0
    texts: int = 0

    def __call__(self, query: Any, k: int) -> Any:
        """Search as the organiser's pipeline does."""
        self.pictures += isinstance(query, Image.Image)
        self.texts += isinstance(query, str)
        return self.behind(query, k=k)


@dataclass(frozen=True)
class Row:
    """Figures of an agent.

    Attributes:
        interval: 95% bootstrap interval of the truthfulness over sessions.
    """

    agent: str
    turns: int
    seconds: float
    tokens: Counts
    pictures: int
    texts: int
    right: int
    missing: int
    wrong: int
    errors: int
    truthfulness: float
    interval: tuple[float, float] | None

    def cells(self) -> tuple[str, ...]:
        """Format the row of the table; counts a turn."""

        def each(count: int) -> str:
            return f"{count / self.turns:.1f}"

        tokens = self.tokens
        counted = (tokens.calls, tokens.prompt_tokens - tokens.reused_tokens, tokens.reused_tokens, tokens.reply_tokens)
        return (
            self.agent,
            f"{self.seconds / self.turns:.2f}",
            *map(each, (*counted, self.pictures, self.texts)),
            *map(str, (self.right, self.missing, self.wrong, self.errors)),
            f"{100 * self.truthfulness:.1f} {format_interval(self.interval)}",
        )


@dataclass(frozen=True)
class FinishedRow:
    """Figures of an agent with what they were made with."""

    made_with: Mapping[str, str | int]
    row: Row


_FINISHED_ROW = TypeAdapter(FinishedRow)


class SideBySideOptions(BenchmarkOptions):
    """Options of the agents and the questions."""

    kit: Path | None = Field(None, description="checkout of the starter kit; not given: our presets alone")
    kit_agents: Annotated[tuple[str, ...], Flag(metavar="MODULE:CLASS")] = Field(
        ("agents.vanilla_llama_vision_agent:LlamaVisionModel", "agents.rag_agent:SimpleRAGAgent"),
        description="agents of the kit",
    )
    kit_python: Path | None = Field(None, description="interpreter of the kit; needs Pillow, NumPy and torch")
    presets: Annotated[tuple[str, ...], Flag(metavar="PRESET")] = Field(
        ("direct_rag", "best"), description="our presets"
    )
    num_conversations: int = Field(16, ge=1, description="number of questions")
    seed: int = Field(0, description="what the questions are drawn by")
    base_url: str | None = Field(
        None,
        description="root of the API of a running server; not given: llama.cpp is started with the default weights",
    )
    model_name: str = Field(MODEL, description="name of the model at --base-url")
    out: Path = Field(Path("results/side_by_side"), description="folder of answers and figures")


def _name_folder(agent: str) -> str:
    return re.sub(r"[^\w.-]+", "_", agent)


def shorten_names(agents: Sequence[str]) -> list[str]:
    """Return the class of each ``module:Class``, but of classes of one name the whole; a preset stays as it is."""
    short = [agent.rpartition(":")[2] for agent in agents]
    return [name if short.count(name) == 1 else agent for name, agent in zip(short, agents, strict=True)]


Build = Callable[[SideBySideOptions, str, str, CountedSearch], BaseAgent]
"""Builds an agent of this name, which asks the model at a root of an API."""


@contextmanager
def _serve_model(options: SideBySideOptions) -> Iterator[str]:
    """Yield the root of the API of the language model."""
    if options.base_url is not None:
        yield options.base_url.rstrip("/")
        return
    import xllamacpp

    from agents.models.chat.gguf import find

    settings = xllamacpp.CommonParams()
    settings.model.path = str(find(options.cache))
    settings.n_ctx, settings.n_parallel, settings.verbosity = _SLOT_TOKENS, 1, 0
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = len(os.sched_getaffinity(0))
    server = xllamacpp.Server(settings)
    yield f"{server.listening_address}/v1"


def _build_preset(options: SideBySideOptions, preset: str, url: str, search: CountedSearch) -> CragAgent:
    profile = _write_profile(options, url)
    slow = ("limits.seconds_per_turn=3600", "limits.seconds_per_dialog=36000")
    config = RunConfig.read(preset, str(profile), overrides=slow, cache=options.cache)
    agent = CragAgent.from_config(config, search)
    agent.warm_up(blank_turn=False)
    return agent


def _write_profile(options: SideBySideOptions, url: str) -> Path:
    profile = options.out / "profile.toml"
    write_whole(profile, _PROFILE.format(model=options.model_name, url=url))
    return profile


def _build_kit_agent(options: SideBySideOptions, agent: str, url: str, search: CountedSearch) -> ForeignAgent:
    assert options.kit is not None
    root = options.kit.resolve()
    os.environ |= {
        "SIDE_BY_SIDE_URL": url,
        "SIDE_BY_SIDE_MODEL": options.model_name,
        "PYTHONPATH": str(KIT_MODULES),
    }  # of the child
    log = (options.out / f"{_name_folder(agent)}.log").absolute()
    place = ForeignAgentPlace(root, agent, find_python(root, options.kit_python), log, seconds=3600.0)
    return ForeignAgent(place, None, search)


def _run_agent(
    agent: BaseAgent, name: str, options: SideBySideOptions, counting: CountingServer, search: CountedSearch
) -> Row:
    data = PreparedSet(options.split, options.cache).sessions("single-turn")
    sessions = draw_balanced(data.sessions, options.num_conversations, options.seed).sessions
    began = time.monotonic()
    generation = generate(agent, sessions, data, load_truncator(), options.out / _name_folder(name))
    seconds = time.monotonic() - began
    if generation.interrupted:
        raise KeyboardInterrupt
    judged = judge_turns(generation.turns, RuleJudge(), accept=data.accept)
    scores = score(judged)
    return Row(
        name,
        scores.total,
        seconds,
        counting.counts,
        search.pictures,
        search.texts,
        right=scores.correct,
        missing=scores.miss,
        wrong=scores.hallucination,
        errors=generation.errors,
        truthfulness=scores.truthfulness_score,
        interval=bootstrap_intervals(judged).get("truthfulness_score"),
    )


def _measure_row(options: SideBySideOptions, name: str, build: Build, model: str) -> Row:
    """Run an agent, or read the figures of one that is done with the same questions and model.

    Raises:
        KeyboardInterrupt: The run was stopped.
    """
    path = options.out / _name_folder(name) / ROW
    made_with: dict[str, str | int] = {
        "agent": name,
        "split": options.split,
        "seed": options.seed,
        "num_conversations": options.num_conversations,
        "model_name": options.model_name,
        "base_url": str(options.base_url),
        "commit": current_commit(),
    }
    if build is _build_kit_agent:
        assert options.kit is not None
        made_with["kit"] = str(options.kit.resolve())
    if (earlier_run := _read_finished_row(path)) is not None and earlier_run.made_with == made_with:
        return earlier_run.row
    counting, search = CountingServer(model), CountedSearch(PreparedSet(options.split, options.cache).search())
    with counting.serve() as url:
        agent = build(options, name, url, search)
        try:
            counting.counts = Counts()  # without those of loading
            row = _run_agent(agent, name, options, counting, search)
        finally:
            if isinstance(agent, ForeignAgent):
                agent.close()
    write_whole(path, json.dumps(asdict(FinishedRow(made_with, row))))
    return row


def _read_finished_row(path: Path) -> FinishedRow | None:
    """Read the figures in a folder; None if there are none, or an earlier version wrote them."""
    try:
        return _FINISHED_ROW.validate_json(path.read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


def _measure(options: SideBySideOptions) -> int:
    console = make_console()
    options.out.mkdir(parents=True, exist_ok=True)
    kit = options.kit_agents if options.kit is not None else ()
    builders: list[tuple[str, Build]] = [*((name, _build_kit_agent) for name in kit)]
    builders += [(name, _build_preset) for name in options.presets]
    with _serve_model(options) as model:
        rows = [_measure_row(options, name, build, model) for name, build in builders]
    title = f"{options.split}: {rows[0].turns} questions, {options.model_name}; counts a turn"
    named = zip(rows, shorten_names([row.agent for row in rows]), strict=True)
    console.print(build_table(title, HEADINGS, [replace(row, agent=name).cells() for row, name in named]))
    limits = MachineLimits.measure()
    console.print(
        f"This machine: {len(os.sched_getaffinity(0))} cores, {limits.read_gigabytes:.0f} GB/s read from memory, "
        f"{limits.int8_teraops:.2f} int8 TOP/s",
        highlight=False,
    )
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the agents and print the table.

    Returns:
        0, 2 if an agent or the model cannot be loaded, or 130 when stopped by Ctrl-C.
    """
    return run(_measure, SideBySideOptions, arguments, __doc__)


if __name__ == "__main__":
    sys.exit(main())
