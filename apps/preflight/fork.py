"""Checks of a fork of the starter kit: its aicrowd.json, image and files, and a rehearsal of its agent under its own interpreter."""

from pathlib import Path

from agents.profiles.weights import SUBMISSION
from apps.preflight.admission import check_checkpoints
from apps.preflight.check import Check, run_check
from apps.preflight.checkpoints import Checkpoint
from apps.preflight.hub_access import check_access
from apps.preflight.rehearsal import Submitted, check_submitted
from apps.preflight.repository import check_dockerfile, check_files, check_requirements
from apps.preflight.submission import Submission, check_revisions, read_submission
from evaluation.records import EvaluationError
from evaluation.run.foreign_agent import find_python

_PIN = "name a commit as the revision of each model in hf_models"


def run_fork(root: Path, python: Path | None, cache: Path, *, quick: bool = False) -> list[Check]:
    """Run the checks of a fork, in the order of the table.

    Raises:
        EvaluationError: There is no such folder or interpreter.
    """
    if not root.is_dir():
        raise EvaluationError(f"--agent-root {root} is no folder; name the clone of the fork")
    root = root.resolve()
    interpreter = find_python(root, python)
    submission = read_submission(root / SUBMISSION.name, "write it as the starter kit's docs/submission.md says")
    checks = [submission] if isinstance(submission, Check) else _check_models(submission, quick=quick)
    task = 2 if isinstance(submission, Check) else submission.task
    checks += run_check("requirements", lambda: check_requirements(root / "requirements.txt", quick=quick))
    checks += run_check("Dockerfile", lambda: check_dockerfile(root / "Dockerfile"))
    checks += run_check("files", lambda: check_files(root))
    submitted = Submitted(root, interpreter, cache, task, is_fork=True)
    return checks + run_check("rehearsal", lambda: check_submitted(submitted, quick=quick))


def _check_models(submission: Submission, *, quick: bool) -> list[Check]:
    found = f"valid, {submission.challenge_id}"
    checks = [Check("aicrowd.json", "ok", found if submission.gpu else f"{found}, without a GPU")]
    checks.append(check_revisions(submission, {}, _PIN, _PIN))
    models = [Checkpoint(each.repo_id, "hub", (), {"revision": each.revision}) for each in submission.hf_models]
    checks += run_check("models admitted", lambda: check_checkpoints(models))
    checks += run_check("access to models", lambda: check_access([each.path for each in models], quick=quick))
    return checks
