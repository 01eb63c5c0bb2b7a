"""Ask in the terminal: ``python -m apps.terminal [COLLECTION] [PHOTO] [QUESTION]``.

Without a question, a dialog begins. Without a photo, only pages are searched.
"""

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Self

from PIL import Image
from pydantic import Field, model_validator
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from agents.base.command_options import Flag
from agents.base.console import SafeConsole
from agents.base.files import one_line
from agents.base.printing import log_to_stderr
from agents.base_agent import Message
from agents.english.references import points_at_picture
from agents.record import Unanswered
from agents.runner.intake import PHOTO_FORMATS
from agents.search.own_sources import PICTURES
from agents.settings.shared_options import JsonOptions, print_json
from agents.time_limits.signals import INTERRUPTED, run_program
from apps.answering import (
    AgentError,
    Answerer,
    AnswererOptions,
    CannotStartError,
    PhotoError,
    Question,
    read_photo,
    start,
)
from apps.outcome import Outcome

_LEAVE = frozenset({"exit", "quit", ":q"})
_KINDS = {"kg": "knowledge graph", "web": "web"}
_CURES = {
    Unanswered.TIME: "; give it more with --set limits.seconds_per_turn=120",
    Unanswered.BUSY: "; try again later, or name another server with --base-url",
    Unanswered.STAGE: "; --trace FILE keeps all that the stages did",
}
"""What to do about an error, where its own words do not say it."""
_WORDS = ("collection", "photo", "question")  # without a flag, in this order
_MAX_TEXT = 300  # characters of a piece of evidence


class AskOptions(AnswererOptions, JsonOptions):
    """Ask an agent about a photo, or about pages."""

    knowledge: Annotated[Path | None, Flag(metavar="COLLECTION")] = Field(
        None, description="the same as a collection before the photo"
    )
    collection: Annotated[Path | None, Flag(positional=True)] = Field(
        None, description="folder of your own photos and pages, indexed by crag index (docs/own_knowledge.md)"
    )
    photo: Annotated[Path | None, Flag(positional=True)] = Field(
        None, description=f"a picture ({', '.join(PHOTO_FORMATS)}); without one, only pages are searched"
    )
    question: Annotated[str | None, Flag(positional=True)] = Field(
        None, description="the question; without one, a dialog begins"
    )
    brief: bool = Field(False, description="print only the answer")

    @model_validator(mode="before")
    @classmethod
    def _tell_apart(cls, values: Any) -> Any:
        """Say which of the words on the command line are the collection, the photo and the question."""
        return _sort_words(dict(values)) if isinstance(values, Mapping) and "collection" in values else values

    @model_validator(mode="after")
    def _one_answer(self) -> Self:
        if self.photo is None and self.question is None and self.knowledge is None:
            raise ValueError("there is nothing to ask about: name a photo, or a collection and a question")
        if self.photo is None and self.question is not None and points_at_picture(self.question):
            raise ValueError("the question points at what only a photo can show: name a photo before it")
        if self.as_json and self.question is None:
            raise ValueError("--json needs a question: give one after the photo")
        return self


def _sort_words(values: dict[str, Any]) -> dict[str, Any]:
    """Sort the words of a command line, ``[COLLECTION] [PHOTO] [QUESTION]``, which argparse fills from the left.

    The first is the collection if it is a folder. A single further word is the photo, unless it reads like a question.

    Raises:
        ValueError: There are three words, and the first is no folder; or two collections are named.
    """
    words = [str(word) for name in _WORDS if (word := values.pop(name, None)) is not None]
    if words and os.path.isdir(words[0]):  # noqa: PTH112 - Path.is_dir raises on a question longer than file names may be
        if values.get("knowledge") is not None:
            raise ValueError(f"{words[0]} and --knowledge name two collections: give one of them")
        values["knowledge"] = words.pop(0)
    if len(words) == len(_WORDS):
        raise ValueError(f"there is no folder {words[0]}; name the folder of a collection, or leave it out")
    if len(words) == 1:
        return values | {"question" if _reads_like_question(words[0]) else "photo": words[0]}
    return values | dict(zip(("photo", "question"), words, strict=False))


def _reads_like_question(word: str) -> bool:
    if word.lower().endswith(PICTURES) or os.path.isfile(word):  # noqa: PTH113 - as above
        return False
    return len(word.split()) > 1 or word.rstrip().endswith("?") or not word.isascii()


def main(arguments: Sequence[str] | None = None, console: Console | None = None) -> int:
    """Answer the question, or hold a dialog.

    Returns:
        0; 1 if there is no answer because something failed or the time was up; 2 if it cannot be done; 130 if stopped by Ctrl-C. The
        reason of 1 and 2 is one line on standard error.
    """
    options = AskOptions.parse(arguments)
    log_to_stderr().addFilter(_concerns_the_user)
    console = console or SafeConsole(stderr=options.as_json)
    try:
        photo = (
            None if options.photo is None else read_photo(options.photo)
        )  # before models are loaded: a wrong path shows at once
        with tell_progress() as tell:
            tell("loading the models")
            answerer = start(options)
        if not options.question:
            talk(answerer, photo, console, brief=options.brief, signals=options.verbose)
            return 0
        outcome = _ask(answerer, Question(options.question, photo))
        if options.as_json:
            print_json(outcome.as_json())
        else:
            show(console, outcome, brief=options.brief, signals=options.verbose)
        if outcome.failed:
            _print_failure(outcome)
            return 1
    except AgentError as error:
        _print_error(str(error))
        return 1
    except (PhotoError, CannotStartError) as error:
        _print_error(str(error))
        return 2
    except KeyboardInterrupt:
        SafeConsole(stderr=True).print("stopped")
        return INTERRUPTED
    return 0


def _concerns_the_user(record: logging.LogRecord) -> bool:
    """Return whether a record is an error or a warning of the agent itself, such as that its gate was fitted to other models."""
    return record.levelno >= logging.ERROR or record.name.startswith("agents.")


def _print_error(message: str) -> None:
    """Print an error as one line on standard error."""
    SafeConsole(stderr=True).print(
        f"error: {one_line(message)}", style="red", markup=False, highlight=False, soft_wrap=True
    )


def _print_failure(outcome: Outcome) -> None:
    _print_error(f"{outcome.error}{_CURES.get(outcome.cause or Unanswered.AGENT, '')}")


@contextmanager
def tell_progress(console: Console | None = None) -> Iterator[Callable[[str], None]]:
    """Show the current step and its seconds until the block ends; nothing unless the console is a terminal.

    Args:
        console: Where it shows; None: standard error, so that standard output has only the answer.

    Yields:
        A function that takes the next step, in plain words, from any thread.
    """
    console = console or SafeConsole(stderr=True)
    if not console.is_terminal:  # where the bar would leave an empty line
        yield lambda _: None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda words: bar.update(task, description=words)


def _ask(answerer: Answerer, question: Question) -> Outcome:
    """Answer a question and show its stages; no part of the answer, which a rule may still withhold."""
    with tell_progress() as tell:
        return answerer.answer([question], tell)[0]


def talk(
    answerer: Answerer,
    photo: Image.Image | None,
    console: Console,
    *,
    brief: bool = False,
    signals: bool = False,
    read: Callable[[], str] | None = None,
) -> None:
    """Hold a dialog about one photo, or about none, until an empty line, "exit" or the end of the input.

    ``read`` returns the next question; None: it is read from the console. The options are those of ``show``.
    """
    history: list[Message] = []
    beside = SafeConsole(stderr=True) if brief else console
    read = read or (lambda: beside.input("[bold]question:[/] "))
    subject = "about the photo" if photo is not None else "without a photo"
    beside.print(f"Ask {subject}; an empty line or Ctrl-D ends the dialog.", style="dim")
    while True:
        try:
            text = read().strip()
        except EOFError:
            return
        if not text or text.lower() in _LEAVE:
            return
        outcome = _ask(answerer, Question(text, photo, tuple(history)))
        show(console, outcome, brief=brief, signals=signals)
        if outcome.failed:
            _print_failure(outcome)
            continue
        history += [{"role": "user", "content": text}, {"role": "assistant", "content": outcome.answer}]


def show(console: Console, outcome: Outcome, *, brief: bool = False, signals: bool = False) -> None:
    """Print the answer, the recognised thing, the evidence, and one line on how sure the agent is.

    Args:
        console: Where it is printed.
        outcome: The answer and how it came about.
        brief: Print only the answer, and nothing after a failure.
        signals: Also print searched crops, measured signals, and the seconds of each stage.
    """
    if brief:
        if not outcome.failed:
            console.print(outcome.answer, markup=False, highlight=False, soft_wrap=True)
        return
    colour = "red" if outcome.failed else "yellow" if outcome.abstained else "green"
    text, title = ("there is no answer", "error") if outcome.failed else (outcome.answer, "answer")
    console.print(Panel(Text(text), title=title, border_style=colour, expand=False))
    for part in (
        _format_findings(outcome, searched=signals),
        _format_sources(outcome),
        _format_verdict(outcome),
        *((_format_signals(outcome), _format_times(outcome)) if signals else ()),
    ):
        if part is not None:
            console.print(part)


def _format_findings(outcome: Outcome, *, searched: bool) -> RenderableType | None:
    """Format the entity and, with ``searched``, the text read and the crops searched."""
    rows = Table.grid(padding=(0, 2))
    rows.add_column(style="dim", no_wrap=True)
    rows.add_column()
    if searched and outcome.question:
        rows.add_row("understood as", Text(outcome.question))
    if outcome.entity:
        rows.add_row("entity", Text(outcome.entity, style="bold"))
    elif outcome.unrecognised:
        rows.add_row("entity", Text(outcome.unrecognised))
    if searched and outcome.read:
        rows.add_row("text read", Text(", ".join(outcome.read)))
    if searched and outcome.alike:
        rows.add_row("alike", Text(", ".join(f"{name} {score:.2f}" for name, score in outcome.alike)))
    for number, crop in enumerate(outcome.crops if searched else (), 1):
        place = f"({crop.left}, {crop.top}) to ({crop.right}, {crop.bottom})"
        rows.add_row(f"crop {number}", Text(f"{place} {crop.phrase}".rstrip()))
    return rows if rows.row_count else None


def _format_sources(outcome: Outcome) -> RenderableType | None:
    if not outcome.sources:
        return None
    table = Table(title="evidence", title_justify="left", show_header=False, expand=True, show_lines=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(ratio=1)
    for number, source in enumerate(outcome.sources, 1):
        score = "" if source.score is None else f"{source.score:.2f}"
        text = source.text if len(source.text) <= _MAX_TEXT else source.text[:_MAX_TEXT] + "…"
        origin = ", ".join(filter(None, (_KINDS.get(source.kind, source.kind), source.title, source.name)))
        table.add_row(f"{number}\n{score}", Group(Text(text), Text(origin, style="dim")))
    return table


def _format_verdict(outcome: Outcome) -> RenderableType | None:
    """Format one line on how sure the agent is, and any failure in spite of an answer."""
    if not outcome.verdict:
        return None
    lines = [Text.assemble(("verdict  ", "dim"), (outcome.explained, "bold"))]
    if outcome.error and not outcome.failed:
        lines.append(Text(f"went wrong: {outcome.error}", style="red"))
    return Group(*lines)


def _format_signals(outcome: Outcome) -> RenderableType | None:
    if not outcome.checks:
        return None
    parts = (
        f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in outcome.checks.items()
    )
    return Text("; ".join(parts), style="dim")


def _format_times(outcome: Outcome) -> RenderableType | None:
    if not outcome.times:
        return None
    ran = [f"{time.stage} {time.seconds:.2f}" for time in outcome.times if not time.skipped and time.seconds >= 0.005]
    missed = [f"{time.stage}: {time.skipped}" for time in outcome.times if time.skipped]
    lines = [Text(f"{outcome.seconds:.2f} s: {', '.join(ran)}", style="dim")]
    if missed:
        lines.append(Text(f"skipped: {'; '.join(missed)}", style="yellow"))
    return Group(*lines)


if __name__ == "__main__":
    run_program(main)
