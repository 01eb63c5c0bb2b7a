"""Ask about photos of an invented zoo, of which no model knows anything.

Run: ``python examples/ask_zoo.py`` (examples/README.md).
"""

import sys
from pathlib import Path

from pydantic import Field
from rich.console import Console

from agents.search.build_index import IndexOptions, build
from agents.search.hits import SearchError
from apps.answering import AgentError, AnswererOptions, CannotStartError, Question, read_photo, start
from apps.terminal import show, tell_progress

_TOLD = "An invented zoo, of which no model knows anything: a table of its animals, a few pages, and photos that visitors took."
ZOO = Path(__file__).resolve().parent / "zoo"
SPLIT = "zoo"  # the name of these indices in the cache

QUESTIONS = (
    ("koala.webp", "When was this animal born?"),  # the table
    ("cheetah.webp", "How fast did this animal run 100 metres?"),  # a Markdown page
    ("bison.webp", "What did this animal break in 2022?"),  # an HTML page
    ("giraffe.webp", "By how much is this animal heavier than Bruno the bison?"),  # two facts and a difference
    ("cat.webp", "When was this animal born?"),  # no animal of the zoo: "I don't know"
)
"""A visitor's photo and a question about it."""

FEW = (QUESTIONS[0], QUESTIONS[1], QUESTIONS[4])
"""One of each kind: a fact of the table, one of a page, and one that has no answer."""


class ZooOptions(AnswererOptions):
    """Index the zoo's photos, table and pages, then ask about visitors' photos."""

    split: str | None = Field(SPLIT, description="name of the indices in the cache")
    few: bool = Field(False, description="ask three of the five questions, one of each kind, as make demo does")


def main() -> int:
    """Index the zoo, ask the questions and print the answers.

    Returns:
        0, or 2 if the agent cannot be put together.
    """
    options = ZooOptions.parse()
    console = Console()
    try:
        # Only new content is embedded, so that the table and the pages may be changed between two calls.
        build(
            IndexOptions(
                images=ZOO / "photos",
                table=ZOO / "animals.csv",
                documents=ZOO / "pages",
                split=options.split,
                cache=options.cache,
                no_progress=True,
            )
        )
        answerer = start(options)
        console.print(_TOLD, style="dim")
        for photo, text in FEW if options.few else QUESTIONS:
            console.rule(f"{photo}: {text}")
            with tell_progress() as tell:
                outcome = answerer.answer([Question(text, read_photo(ZOO / "visitors" / photo))], tell)[0]
            show(console, outcome, signals=options.verbose)
    except (SearchError, CannotStartError, AgentError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
