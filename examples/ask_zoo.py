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
from apps.terminal import show

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


class ZooOptions(AnswererOptions):
    """Index the zoo's photos, table and pages, then ask about visitors' photos."""

    split: str | None = Field(SPLIT, description="name of the indices in the cache")


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
        for photo, text in QUESTIONS:
            console.rule(f"{photo}: {text}")
            show(console, answerer.answer([Question(text, read_photo(ZOO / "visitors" / photo))])[0])
    except (SearchError, CannotStartError, AgentError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
