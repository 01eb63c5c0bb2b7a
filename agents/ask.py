"""Ask about a photo in the terminal: ``python -m agents.ask photo.jpg "How tall is this?"``; a dialog where no question is given."""

import argparse
import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from PIL import Image
from rich.console import Console

from agents.apps.answering import Answerer, CannotStartError, PhotoError, Question, add_options, read_photo, start
from agents.apps.terminal import show
from agents.base_agent import Message

_LEAVE = frozenset({"exit", "quit", ":q"})


def main(arguments: Sequence[str] | None = None, console: Console | None = None) -> int:
    """Returns the exit status: 0, 2 for what cannot be done (the reason on standard error), 130 when stopped by Ctrl-C."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.ERROR, format="%(levelname)s %(name)s: %(message)s")
    console = console or Console()
    try:
        photo = read_photo(options.photo)  # before models are loaded: a wrong path shows at once
        with console.status("loading the models"):
            answerer = start(options)
        if options.question:
            show(console, answerer.answer([Question(options.question, photo)])[0], details=not options.brief)
        else:
            talk(answerer, photo, console, details=not options.brief)
    except (PhotoError, CannotStartError) as error:
        Console(stderr=True).print(f"error: {error}", style="red", markup=False, soft_wrap=True)
        return 2
    except KeyboardInterrupt:
        console.print("stopped")
        return 130
    return 0


def talk(
    answerer: Answerer, photo: Image.Image, console: Console, *, details: bool, read: Callable[[], str] | None = None
) -> None:
    """A dialog about one photo until an empty line, "exit" or the end of the input; ``read`` gives the next question, or the console."""
    history: list[Message] = []
    read = read or (lambda: console.input("[bold]question:[/] "))
    console.print("Ask about the photo; an empty line or Ctrl-D ends the dialog.", style="dim")
    while True:
        try:
            text = read().strip()
        except EOFError:
            return
        if not text or text.lower() in _LEAVE:
            return
        outcome = answerer.answer([Question(text, photo, tuple(history))])[0]
        show(console, outcome, details=details)
        history += [{"role": "user", "content": text}, {"role": "assistant", "content": outcome.answer}]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m agents.ask", description="Ask an agent about a photo.")
    parser.add_argument("photo", type=Path, help="a picture in any format that Pillow reads")
    parser.add_argument("question", nargs="?", help="the question; without one a dialog begins")
    parser.add_argument("--brief", action="store_true", help="the answer alone")
    add_options(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
