"""Console, errors in one line and exit statuses of all commands."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console

from agents.base.console import SafeConsole
from agents.base.files import format_os_error, is_file_error, well_formed
from agents.base.printing import log_to_stderr, print_error
from agents.base.secrets import keep_out_of_logs
from agents.time_limits.signals import INTERRUPTED
from evaluation.records import EvaluationError

_WIDE = 240  # characters


def make_console(*, aside: bool = False) -> Console:
    """Return the console that a command prints to.

    Into a file or pipe, tables are as wide as they have to be.

    Args:
        aside: Print to standard error, because standard output is reserved for JSON.
    """
    console = SafeConsole(stderr=aside)
    return console if console.is_terminal else SafeConsole(width=_WIDE, stderr=aside)


def summarise_error(error: BaseException) -> str:
    """Return the first line of an error's message, or the name of its type if the message is empty."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def run_to_exit_status(
    run: Callable[[], int | None],
    console: Console,
    failures: tuple[type[Exception], ...] = (EvaluationError,),
    stopped: str = "stopped",
) -> int:
    """Run a command, print its expected errors in one line, and return the exit status.

    Args:
        run: The command.
        console: Gets the error.
        failures: Errors to print instead of raising them. Errors of files and disks are always printed.
        stopped: Message after Ctrl-C.

    Returns:
        What ``run`` returns, 0 for None; 2 after an expected error (1 if the judge judges nothing); 130 after Ctrl-C.
    """
    keep_out_of_logs()
    log_to_stderr()
    status = EvaluationError.exit_status
    try:
        return run() or 0
    except KeyboardInterrupt:
        console.print(stopped)
        return INTERRUPTED
    except OSError as error:
        if not (is_file_error(error) or isinstance(error, failures)):
            raise
        message = format_os_error(error)
    except failures as error:
        message = well_formed(str(error))
        status = getattr(error, "exit_status", status)
    try:
        console.print(f"error: {message}", style="red", markup=False, soft_wrap=True)
    except OSError:  # the console may write to the full disk too
        print_error(f"error: {message}")
    return status
