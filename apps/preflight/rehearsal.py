"""Rehearsal of the evaluator: what git would push is checked out, the agent imported, built and called as the starter kit does.

Each runs in a process of its own without a network, on this machine: an agent of ours under a profile that fits it.
"""

import json
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.profiles.profile import Limits
from agents.runner.start_up import LIMIT_SECONDS
from agents.search.hits import SearchError
from agents.settings.presets import ENVIRONMENT, VARIABLES
from agents.settings.run_config import RunConfig
from apps.preflight import agent_import
from apps.preflight.check import Check, check, run_program
from apps.preflight.image import HOME, ImageError, build_image, check_commit, check_out, read_dockerfile
from evaluation.records import EvaluationError
from evaluation.run.foreign_agent import ForeignAgent, ForeignAgentError, ForeignAgentPlace

IMPORT_SECONDS = 5.0  # the evaluator imports the agent in every process it starts; the models are for the constructor
REHEARSAL_PROFILE = "embedded"

_AGENT = "agents.user_config:UserAgent"
_FILE = "agents/user_config.py"
_LOG = "preflight_agent.log"
_PATIENCE = 6.0  # times the challenge's limit after which a call counts as hung: how late it is, is told
_IMPORT = "import of agents.user_config"
_OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}


@dataclass(frozen=True)
class Submitted:
    """What is rehearsed, and with what.

    Attributes:
        root: Repository.
        python: Interpreter of its agent.
        cache: Folder of indices and weights.
        task: Task of the challenge; 1: no web search.
        profile: Profile of an agent of ours, in place of the image's.
        is_fork: Whether it is a fork of the starter kit. Its import is not timed, because the kit's own modules are only offered to the
            process that calls it; and answers that the evaluator would cut are a warning.
    """

    root: Path
    python: Path
    cache: Path
    task: int = 2
    profile: str = REHEARSAL_PROFILE
    is_fork: bool = False


def check_submitted(submitted: Submitted, *, quick: bool = False) -> list[Check]:
    """Check that the commit has everything, and that the agent of its image can be imported, built and called.

    With ``quick`` the agent is neither built nor called.
    """
    [committed] = check_commit(submitted.root)
    if committed.state == "skipped":
        return [committed, Check("rehearsal", "skipped", committed.found, committed.fix)]
    with tempfile.TemporaryDirectory(prefix="crag-preflight-") as folder:
        try:
            clone = Path(folder, "clone")
            check_out(submitted.root, clone)
            home = build_image(clone, Path(folder, "image"))
            env = read_dockerfile(clone / "Dockerfile").env
        except ImageError as error:
            return [committed, Check("image", "failed", str(error), error.fix)]
        if not (home / _FILE).is_file():
            missing = (
                "is not in git"
                if not (clone / _FILE).is_file()
                else "is not copied by the Dockerfile, or in .dockerignore"
            )
            fix = f"git add {_FILE}; COPY . {HOME} in the Dockerfile; take it out of .dockerignore"
            return [committed, Check("image", "failed", f"it has no agent: {_FILE} {missing}", fix)]
        imported: list[Check] = []
        is_ours = False
        if not submitted.is_fork:
            imported, is_ours = check_import(home, submitted.python, make_environment(env, submitted.cache))
        checks = [committed, *imported]
        if quick or any(each.state == "failed" for each in imported):
            return [
                *checks,
                Check("rehearsal", "skipped", "--quick" if quick else "the import failed", "run it without --quick"),
            ]
        env = make_environment(env, submitted.cache, submitted.profile if is_ours else None)
        log = submitted.cache.absolute() / _LOG
        patience = _PATIENCE * Limits().seconds_per_turn
        place = ForeignAgentPlace(home, _AGENT, submitted.python, log, patience, offline=True, env=env)
        return checks + rehearse(place, submitted)


def make_environment(image: Mapping[str, str], cache: Path, profile: str | None = None) -> dict[str, str]:
    """Return the environment of the agent's process: that of the image, but for places, and this machine's folders.

    Args:
        image: Variables that the Dockerfile sets.
        cache: Folder of indices and weights.
        profile: Profile of an agent of ours on this machine, which then has the challenge's limits of time; None: the image's.
    """
    places = VARIABLES - {"CRAG_PRESET", "CRAG_PROFILE"}
    here = {name: value for name, value in os.environ.items() if not name.startswith(ENVIRONMENT) or name in places}
    image = {name: value for name, value in image.items() if not value.startswith("/") and name != "PATH"}
    allowed = Limits()
    ours = {
        "CRAG_PROFILE": profile or "",
        "CRAG_LIMITS__SECONDS_PER_TURN": f"{allowed.seconds_per_turn:g}",
        "CRAG_LIMITS__SECONDS_PER_DIALOG": f"{allowed.seconds_per_dialog:g}",
    }
    return {**here, **image, **_OFFLINE, "CRAG_CACHE": str(cache.absolute()), **(ours if profile else {})}


def check_import(home: Path, python: Path, env: Mapping[str, str]) -> tuple[list[Check], bool]:
    """Check that importing the agent is quick and loads neither weights nor torch, and that the evaluator can build and call its class.

    Processor time counts, because any import is slow by the clock of a busy machine.

    Returns:
        The checks, and whether the class is derived from ours.
    """
    process = run_program([str(python), agent_import.__file__], 3600.0, cwd=home, env={**env})
    if process.returncode:
        fix = f"correct {_FILE}; files that it lacks: git add them, and take them out of .dockerignore"
        return [Check(_IMPORT, "failed", _find_last_line(process.stderr), fix)], False
    report = json.loads(_find_last_line(process.stdout))
    finding = f"{report['seconds']:.2f} s" + " with torch" * report["torch"]
    finding += f", opens {'|'.join(report['weights'])}" * bool(report["weights"])
    good = report["seconds"] <= IMPORT_SECONDS and not report["torch"] and not report["weights"]
    fix = f"define in {_FILE} a class UserAgent(BaseAgent) with these methods, or import one under this name"
    if any("cannot be read" in fault for fault in report["faults"]):
        fix = (
            "git add the file; take it out of .dockerignore; correct ENV CRAG_PRESET and CRAG_PROFILE in the Dockerfile"
        )
    return [
        check(_IMPORT, good, finding, "import heavy libraries and load models where the agent is built"),
        check("UserAgent", not report["faults"], "; ".join(report["faults"]) or "can be built and called", fix),
    ], report["is_ours"]


def rehearse(place: ForeignAgentPlace, submitted: Submitted) -> list[Check]:
    """Build the agent as the starter kit does and call it once, offline, on this machine."""
    fix = f"its output and traceback are in {place.log}"
    try:
        web = submitted.task != 1
        pipeline = open_search(RunConfig.of_profile(REHEARSAL_PROFILE, cache=submitted.cache), web=web)
    except SearchError as error:
        return [Check("rehearsal", "skipped", f"no search: {error}", "make demo")]
    name, count = load_token_counter()
    began = time.perf_counter()
    try:
        agent = ForeignAgent(place, search=pipeline)
    except EvaluationError as error:
        return [Check("rehearsal", "failed", str(error), fix)]
    try:
        started, size = time.perf_counter(), agent.get_batch_size()
        if not 1 <= size <= 16:
            return [Check("rehearsal", "failed", f"get_batch_size() is {size}", "return 1 to 16")]
        answers: Any = agent.batch_generate_response(*make_turns(size))
        seconds = time.perf_counter() - started
    except ForeignAgentError as error:
        return [Check("rehearsal", "failed", str(error), fix)]
    finally:
        agent.close()
    if not isinstance(answers, list) or not all(isinstance(each, str) for each in answers):
        return [Check("answers", "failed", "not one text for each turn", "return a list of str, one for each query")]
    call = {
        "turns": size,
        "seconds": seconds,
        "answers": answers,
        "tokens": [count(answer) for answer in answers] or [0],
    }
    inside = {"failures": [], "cut": [], **agent.inside}
    report = {"start_up": started - began, "attempts": agent.connections, "tokenizer": name, **inside, **call}
    return judge(report, may_be_cut=submitted.is_fork)


def judge(report: Mapping[str, Any], *, may_be_cut: bool = False) -> list[Check]:
    """Turn a report of the rehearsal into checks.

    Args:
        report: Seconds of start-up and call, turns, answers with their tokens, attempted connections, and what an agent of ours failed to
            load or left out.
        may_be_cut: Warn of answers that the evaluator would cut, in place of a failure.
    """
    wrong = "; ".join([f"tried to reach {address}" for address in report["attempts"][:3]] + report["failures"])
    fix = "the evaluator has no network; `make demo` builds the local indices, `make install` brings the weights"
    turns, limit = report["turns"], Limits().seconds_per_turn * report["turns"]
    steps = [("start-up", report["start_up"], LIMIT_SECONDS), (f"{turns} turns", report["seconds"], limit)]
    durations = "; ".join(f"{name} in {seconds:.1f} of {allowed:.0f} s" for name, seconds, allowed in steps)
    late = any(seconds > allowed for _, seconds, allowed in steps)
    whole = len(report["answers"]) == turns and all(answer.strip() for answer in report["answers"])
    longest, allowed = max(report["tokens"]), Limits().answer_tokens
    answers = f"{'one' if whole else 'not one'} for each turn, the longest of {longest} tokens by {report['tokenizer']}"
    length = f"every turn needs an answer of at most {allowed} tokens (limits.answer_tokens), or I don't know"
    on_gpu = "rehearse where the GPU is: python -m apps.preflight --rehearsal-profile gpu"
    return [
        check("offline", not wrong, wrong or "no connection was tried, all models loaded", fix),
        Check("time", "warning", f"{durations}; too little for: {', '.join(report['cut'])}", on_gpu)
        if report["cut"] and not late
        else check("time", not late, durations, f"the log of the agent shows the slow step ({_LOG} in the cache)"),
        Check("answers", "warning", answers, length)
        if may_be_cut and whole and longest > allowed
        else check("answers", whole and longest <= allowed, answers, length),
    ]


def open_search(config: RunConfig, *, web: bool) -> Any:
    """Open the search over the newest indices.

    Raises:
        SearchError: There are no indices.
    """
    return config.pipeline(split=config.newest_split(web=web), web=web)


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


def _find_last_line(text: str) -> str:
    return ([line for line in text.split("\n") if line.strip()] or ["no output"])[-1]
