"""Checks of a fork of the starter kit: its aicrowd.json, image and files, and a rehearsal of its agent under its own interpreter."""

import time
from pathlib import Path
from typing import Any

from agents.profiles.profile import Limits
from agents.profiles.weights import SUBMISSION
from agents.search.hits import SearchError
from agents.settings.run_config import RunConfig
from apps.preflight.admission import check_checkpoints
from apps.preflight.check import Check, run_check
from apps.preflight.checkpoints import Checkpoint
from apps.preflight.hub_access import check_access
from apps.preflight.rehearsal import judge, load_token_counter, make_turns, open_search
from apps.preflight.repository import check_dockerfile, check_files, check_requirements
from apps.preflight.submission import Submission, check_revisions, read_submission
from evaluation.records import EvaluationError
from evaluation.run.foreign_agent import ForeignAgent, ForeignAgentError, ForeignAgentPlace, find_python

_AGENT = "agents.user_config:UserAgent"
_LOG = "preflight_agent.log"
_PATIENCE = 6.0  # times the challenge's limit after which a call counts as hung: how late it is, is told
_PIN = "name a commit as the revision of each model in hf_models"


def run_fork(root: Path, python: Path | None, cache: Path, *, quick: bool = False) -> list[Check]:
    """Run the checks of a fork, in the order of the table.

    Raises:
        EvaluationError: There is no such folder or interpreter.
    """
    if not root.is_dir():
        raise EvaluationError(f"--agent-root {root} is no folder; name the clone of the fork")
    root = root.resolve()
    place = ForeignAgentPlace(
        root,
        _AGENT,
        find_python(root, python),
        cache.absolute() / _LOG,
        _PATIENCE * Limits().seconds_per_turn,
        offline=True,
    )
    submission = read_submission(root / SUBMISSION.name, "write it as the starter kit's docs/submission.md says")
    checks = [submission] if isinstance(submission, Check) else _check_models(submission, quick=quick)
    task = 2 if isinstance(submission, Check) else submission.task
    checks += run_check("requirements", lambda: check_requirements(root / "requirements.txt", quick=quick))
    checks += run_check("Dockerfile", lambda: check_dockerfile(root / "Dockerfile"))
    checks += run_check("files", lambda: check_files(root))
    if quick:
        return [*checks, Check("rehearsal", "skipped", "--quick", "run it without --quick")]
    return checks + run_check("rehearsal", lambda: rehearse_fork(place, cache, web=task != 1))


def _check_models(submission: Submission, *, quick: bool) -> list[Check]:
    found = f"valid, {submission.challenge_id}"
    checks = [Check("aicrowd.json", "ok", found if submission.gpu else f"{found}, without a GPU")]
    checks.append(check_revisions(submission, {}, _PIN, _PIN))
    models = [Checkpoint(each.repo_id, "hub", (), {"revision": each.revision}) for each in submission.hf_models]
    checks += run_check("models admitted", lambda: check_checkpoints(models))
    checks += run_check("access to models", lambda: check_access([each.path for each in models], quick=quick))
    return checks


def rehearse_fork(place: ForeignAgentPlace, cache: Path, *, web: bool) -> list[Check]:
    """Build the agent as the starter kit does and call it once, offline, on this machine."""
    fix = f"its output and traceback are in {place.log}"
    try:
        pipeline = open_search(RunConfig.of_profile("embedded", cache=cache), web=web)
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
        answers: Any = agent.batch_generate_response(*make_turns(size))
        seconds = time.perf_counter() - started
    except ForeignAgentError as error:
        return [Check("rehearsal", "failed", str(error), fix)]
    finally:
        agent.close()
    if not isinstance(answers, list) or not all(isinstance(each, str) for each in answers):
        return [Check("answers", "failed", "not one text for each turn", "return a list of str, one for each query")]
    call = {"way": "with a search pipeline", "turns": size, "seconds": seconds}
    tokens = [count(answer) for answer in answers] or [0]
    return judge(
        {
            "start_up": started - began,
            "failures": [],
            "attempts": [],
            "tokenizer": name,
            "calls": [{**call, "answers": answers, "tokens": tokens}],
        },
        may_be_cut=True,
    )
