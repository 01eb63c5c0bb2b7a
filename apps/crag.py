"""The command ``crag``: every command of the project by one name, ``crag NAME ...`` or ``python -m apps.crag NAME ...``."""

from __future__ import annotations

import importlib.metadata
import io
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import Any

from agents.base.data_folder import ROOT, is_installed
from agents.base.printing import print_error, print_text
from agents.time_limits.signals import INTERRUPTED, end_if_stopped, sigterm_as_ctrl_c

_SHELLS = ("bash", "zsh", "tcsh")
_COMPLETION = "completion"
_DISTRIBUTION = "crag-mm-agent"


@dataclass(frozen=True)
class Command:
    """A command: its name, the module with its ``main``, the model of its options there, and a help line."""

    name: str
    module: str
    options: str
    help: str

    def load(self) -> Any:
        """Import the module only when it is needed, because some imports take seconds."""
        return import_module(self.module)


COMMANDS = (
    Command("ask", "apps.terminal", "AskOptions", "ask about a photo; without a question, in a dialog"),
    Command("web", "apps.web", "WebOptions", "ask about photos on a web page"),
    Command("serve", "apps.serve", "ServeOptions", "serve the agent to OpenAI clients"),
    Command(
        "report", "evaluation.report.command", "ReportOptions", "write a report of a server's turns from its --trace"
    ),
    Command("run", "evaluation.run.command", "RunOptions", "answer a data set and score it, like local_evaluation.py"),
    Command("compare", "evaluation.studies.compare", "CompareOptions", "run several presets side by side"),
    Command("ablate", "evaluation.studies.ablate", "AblateOptions", "run a preset without each of its parts"),
    Command("leaderboard", "evaluation.studies.leaderboard", "LeaderboardOptions", "rank saved answers of any agents"),
    Command(
        "metrics", "evaluation.studies.answer_metrics", "MetricsOptions", "compute the papers' metrics of saved answers"
    ),
    Command(
        "stages",
        "evaluation.studies.stage_truth",
        "StageTruthOptions",
        "find the stage that fails, by CRAG-MM-Diagnostics (python -m agents.stages lists stages)",
    ),
    Command(
        "flips",
        "evaluation.studies.flips",
        "FlipsOptions",
        "show the verdicts that changed between two runs, and the stage",
    ),
    Command(
        "calibrate",
        "evaluation.studies.calibrate",
        "CalibrateOptions",
        "fit the abstention threshold of a preset, on your own questions or on validation",
    ),
    Command("index", "agents.search.build_index", "IndexOptions", "make your own photos and pages searchable"),
    Command(
        "test",
        "evaluation.studies.collection_check",
        "CollectionCheckOptions",
        "ask your own questions of your own knowledge; prints cause and fix of each lost turn",
    ),
    Command(
        "probe",
        "apps.probe",
        "ProbeOptions",
        "test the features of a model on a server, with a fix for each missing one",
    ),
    Command("preflight", "apps.preflight.__main__", "PreflightOptions", "check a submission"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command with the arguments after its name.

    Returns:
        The command's exit status, 2 if there is no such command, or 130 after Ctrl-C.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):  # an answer is not lost where the locale lacks one of its letters
        sys.stdout.reconfigure(errors="backslashreplace")
    return _run([*(sys.argv[1:] if arguments is None else arguments)] or ["--help"])


def _run(arguments: Sequence[str]) -> int:
    name, *rest = arguments
    if name in ("-h", "--help"):
        print_text(_format_help())
        return 0
    if name == "--version":
        print_text(f"crag {version()}")
        return 0
    if name == _COMPLETION:
        return _complete(rest)
    command = next((each for each in COMMANDS if each.name == name), None)
    if command is None:
        names = [*(each.name for each in COMMANDS), _COMPLETION]
        near = get_close_matches(name, names, 1)
        hint = f"; did you mean {near[0]!r}? " if near else "; "
        print_error(f"crag: error: there is no command {name!r}{hint}known: {', '.join(names)}")
        return 2
    from agents.base.command_options import called

    with called(f"crag {name}"), sigterm_as_ctrl_c():
        try:
            status = int(command.load().main(rest))
        except KeyboardInterrupt:
            print_error("stopped")
            status = INTERRUPTED
        except MemoryError:
            print_error(
                "error: there is not enough memory; end other programs, or take a smaller profile (--profile embedded)"
            )
            status = 2
        end_if_stopped(status)
        return status


def version() -> str:
    """Return the version of an installation, or of this checkout as its pyproject.toml has it: its metadata may be older."""
    if is_installed():
        return importlib.metadata.version(_DISTRIBUTION)
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"])


def _format_help() -> str:
    from agents.settings.run_config import preset_names, profile_names

    width = max(len(each.name) for each in COMMANDS) + 2
    listed = "\n".join(f"  {each.name:<{width}}{each.help}" for each in COMMANDS)
    return f"""usage: crag COMMAND [-h] ...
       crag --version

A CRAG-MM agent: questions about photos, answered from an image knowledge graph and web pages.

{listed}

examples:
  crag index museum                                  # a folder with photos/ and pages/
  crag ask museum photo.jpg "Who built this?"
  crag test museum

`crag COMMAND --help` lists its options with their defaults; -v logs each step. `eval "$(crag {_COMPLETION} bash)"` completes
commands and options in this shell (or zsh, tcsh).

presets:  {", ".join(preset_names())}
profiles: {", ".join(profile_names())}"""


def _complete(rest: Sequence[str]) -> int:
    from agents.base.command_options import completion

    if len(rest) != 1 or rest[0] not in _SHELLS:
        print_error(f"crag {_COMPLETION}: error: name a shell: {', '.join(_SHELLS)}")
        return 2
    try:
        options = {each.name: (getattr(each.load(), each.options), each.help) for each in COMMANDS}
        print_text(completion(rest[0], "crag", options))
    except ImportError as error:
        print_error(f"crag {_COMPLETION}: error: {error}; run make install")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
