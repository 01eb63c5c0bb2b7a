"""Rehearsal of the evaluator: the agent is imported, built and called in both ways.

Each runs in a process of its own without a network. Run: ``python -m apps.preflight.rehearsal --preset best --task 2``; the last line of
its output is a JSON report.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from subprocess import CompletedProcess
from typing import Any, Literal

from pydantic import Field

from agents.base.cache_folder import DEFAULT_CACHE, CacheOption
from agents.base.command_options import Options
from agents.crag_agent import CragAgent
from agents.profiles.profile import ROOT, Limits
from agents.runner.start_up import LIMIT_SECONDS
from agents.search.hits import SearchError
from agents.settings.run_config import RunConfig
from apps.preflight.check import Check, check, run_program
from evaluation.run.agent_child import block_network

IMPORT_SECONDS = 5.0  # the evaluator imports the agent in every process it starts; the models are for the constructor

_ON_GPU = "python -m apps.preflight.rehearsal --profile gpu"
_IMPORT = """
import sys, time
opened = []
sys.addaudithook(lambda event, details: opened.append(str(details[0])) if event == "open" and
                 str(details[0]).endswith((".safetensors", ".gguf", ".onnx", ".bin", ".pth", ".pt", ".npz")) else None)
worked = time.process_time()
import agents.user_config
print(time.process_time() - worked, "torch" in sys.modules, "|".join(opened))
"""
_EVIDENCE = """<search results>
['Eiffel Tower']
Entity 1: Eiffel Tower
Entity attributes: {"height": "330 m", "architect": "Stephen Sauvestre"}
<DOC>
Webpage ID: [1]
Title: Eiffel Tower
Web content snippet: The Eiffel Tower is 330 metres tall.
</DOC>
</search results>"""


def check_import() -> Check:
    """Check that importing the agent is quick and loads neither weights nor torch.

    Processor time counts, because any import is slow by the clock of a busy machine.
    """
    name = "import of agents.user_config"
    process = _run_python(["-c", _IMPORT])
    if process.returncode:
        return Check(name, "failed", _find_last_line(process.stderr), "fix the error in the message")
    worked, torch, weights = _find_last_line(process.stdout).split(" ", 2) if process.stdout.strip() else ("0", "", "")
    finding = f"{float(worked):.2f} s" + " with torch" * (torch == "True") + f", opens {weights}" * bool(weights)
    good = float(worked) <= IMPORT_SECONDS and torch == "False" and not weights
    return check(name, good, finding, "import heavy libraries and load models where the agent is built")


def check_rehearsal(config: RunConfig, task: int, *, quick: bool = False) -> list[Check]:
    """Check that batches are answered offline, in time and within the allowed tokens.

    The models are those of the embedded profile, the limits of time those of the challenge.
    """
    arguments = ["-m", "apps.preflight.rehearsal", "--preset", config.preset, "--task", str(task)]
    again = f"python {' '.join(arguments)}"
    if quick:
        return [Check("rehearsal", "skipped", "--quick", again)]
    process = _run_python([*arguments, "--cache", str(config.cache)])
    if process.returncode:
        return [Check("rehearsal", "failed", _find_last_line(process.stderr), again)]
    return judge(json.loads(_find_last_line(process.stdout)))


def _run_python(arguments: list[str]) -> CompletedProcess[str]:
    offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    return run_program([sys.executable, *arguments], 3600.0, cwd=ROOT, env={**os.environ, **offline})


def _find_last_line(text: str) -> str:
    return ([line for line in text.split("\n") if line.strip()] or ["no output"])[-1]


def judge(report: dict[str, Any], *, may_be_cut: bool = False) -> list[Check]:
    """Turn a report of the rehearsal into checks.

    Args:
        report: Report of ``rehearse``, with the attempted connections.
        may_be_cut: Warn of answers that the evaluator would cut, in place of a failure.
    """
    wrong = "; ".join([f"tried to reach {address}" for address in report["attempts"][:3]] + report["failures"])
    fix = "the evaluator has no network; `make demo` builds the local indices, `make install` brings the weights"
    limit, calls = Limits().seconds_per_turn, report["calls"]
    steps = [("start-up", report["start_up"], LIMIT_SECONDS)]
    steps += [(f"{call['turns']} turns {call['way']}", call["seconds"], limit * call["turns"]) for call in calls]
    durations = "; ".join(f"{name} in {seconds:.1f} of {allowed:.0f} s" for name, seconds, allowed in steps)
    cut = sorted({stage for call in calls for stage in call.get("cut", ())})
    late = any(seconds > allowed for _, seconds, allowed in steps)
    whole = all(sum(bool(answer.strip()) for answer in call["answers"]) == call["turns"] for call in calls)
    longest, allowed = max(max(call["tokens"]) for call in calls), Limits().answer_tokens
    answers = f"{'one' if whole else 'not one'} for each turn, the longest of {longest} tokens by {report['tokenizer']}"
    length = f"every turn needs an answer of at most {allowed} tokens (limits.answer_tokens), or I don't know"
    return [
        check("offline", not wrong, wrong or "no connection was tried, all models loaded", fix),
        Check("time", "warning", f"{durations}; too little for: {', '.join(cut)}", f"rehearse on the GPU: {_ON_GPU}")
        if cut and not late
        else check("time", not late, durations, "the log of the start-up and the trace show the slow step"),
        Check("answers", "warning", answers, length)
        if may_be_cut and whole and longest > allowed
        else check("answers", whole and longest <= allowed, answers, length),
    ]


class RehearsalOptions(Options):
    """Build the agent, call it in both ways and report."""

    preset: str = Field("best", description="preset to submit")
    profile: str = Field("embedded", description="the profile of the rehearsal")
    task: Literal[1, 2, 3] = Field(2, description="task of the challenge; 1: no web search")
    cache: CacheOption = Field(DEFAULT_CACHE, description="cache folder with the local indices")


def main(arguments: Sequence[str] | None = None) -> int:
    """Build the agent, call it in both ways and print the report."""
    options = RehearsalOptions.parse(arguments)
    os.environ["HF_HUB_OFFLINE"] = "1"
    attempts = block_network()
    config = _limit_times(RunConfig.read(options.preset, options.profile, cache=options.cache))
    pipeline, missing = None, []
    try:
        pipeline = open_search(config, web=options.task != 1)
    except SearchError as error:
        missing = [f"no search: {error}"]
    agent = CragAgent.from_config(config, pipeline)
    report = rehearse(agent, CragAgent.from_config(config, models=agent.models))
    print(json.dumps({**report, "failures": missing + report["failures"], "attempts": attempts}))
    return 0


def _limit_times(config: RunConfig) -> RunConfig:
    """Return a configuration whose agent keeps to the challenge's limits of time, which a profile for slow machines exceeds."""
    own, allowed = config.settings.limits, Limits()
    times = {
        name: min(getattr(own, name), getattr(allowed, name)) for name in ("seconds_per_turn", "seconds_per_dialog")
    }
    return replace(config, settings=config.settings.model_copy(update={"limits": own.model_copy(update=times)}))


def open_search(config: RunConfig, *, web: bool) -> Any:
    """Open the search over the newest indices.

    Raises:
        SearchError: There are no indices.
    """
    return config.pipeline(split=config.newest_split(web=web), web=web)


def rehearse(agent: CragAgent, without_pipeline: CragAgent) -> dict[str, Any]:
    """Call an agent as the starter kit does, then one of the same models as the research release does."""
    started = agent.warm_up(blank_turn=False)
    name, count = load_token_counter()
    size, calls = agent.get_batch_size(), []
    given_evidence: dict[str, Any] = {"rag_context_list": [_EVIDENCE] * size, "domains": ["sightseeing"] * size}
    ways = (
        ("with a search pipeline", agent, dict[str, Any]()),
        ("with given evidence", without_pipeline, given_evidence),
    )
    for way, callee, evidence in ways:
        records: list[dict[str, Any]] = []
        callee.trace_to(None, records.extend)
        began = time.perf_counter()
        answers = callee.batch_generate_response(*make_turns(size), **evidence)
        seconds, tokens = time.perf_counter() - began, [count(answer) for answer in answers]
        cut = sorted({stage["stage"] for record in records for stage in record["stages"] if _was_cut_short(stage)})
        call = {"way": way, "turns": size, "seconds": seconds, "answers": answers, "tokens": tokens, "cut": cut}
        calls.append(call)
    return {
        "start_up": started.seconds,
        "failures": [f"{step.name}: {step.error}" for step in started.failures],
        "tokenizer": name,
        "calls": calls,
    }


def _was_cut_short(stage: dict[str, Any]) -> bool:
    return stage["status"] not in ("ran", "reduced") and stage.get("cause") in ("time", "hanging")


def make_turns(number: int) -> tuple[list[str], list[Any], list[list[dict[str, str]]]]:
    """Make questions, pictures of several modes and sizes, and an earlier dialog for every other turn."""
    from PIL import Image

    kinds = (("RGB", (960, 1280)), ("P", (1280, 960)), ("CMYK", (800, 600)), ("RGB", (1, 1)))
    questions = ("How tall is this?", "Who made it?", "What does the sign say?", "Was ist das? 這是什麼？ \U0001f981")
    before = [{"role": "user", "content": "What is this?"}, {"role": "assistant", "content": "The Eiffel Tower."}]
    places = [index % len(kinds) for index in range(number)]
    pictures = [Image.new("RGB", kinds[place][1], (40, 90, 160)).convert(kinds[place][0]) for place in places]
    return [questions[place] for place in places], pictures, [list(before) if place % 2 else [] for place in places]


def load_token_counter() -> tuple[str, Callable[[str], int]]:
    """Load the evaluator's tokenizer if it is in the local cache, else MiniLM's.

    The pieces of MiniLM's are shorter, so that it counts more tokens.

    Returns:
        Name of the tokenizer, and a function that counts the tokens of a text.
    """
    from evaluation.run.truncation import load_truncator

    truncator = load_truncator()
    return truncator.name, truncator.count


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # a call to a model that was given up goes on, and may crash an orderly end
