"""A web page to try an agent: ``make web``, or ``python -m apps.web`` with requirements/web.txt."""

import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from PIL import Image
from pydantic import Field

from apps.answering import About, AnswererOptions, CannotStartError, start
from apps.http_server import HttpOptions, run
from evaluation.records import EvaluationError
from mini_crag_mm.content_models import SPLITS

_EXAMPLES = 6
_log = logging.getLogger(__name__)


class WebOptions(HttpOptions, AnswererOptions):
    """A web page to try an agent."""

    port: int = Field(7860, description="port to listen on")


def choose_examples(about: About | None, cache: Path) -> list[tuple[Image.Image, str]]:
    """Choose photos of the mini set, of different domains, each with a question.

    They are the first of the data set that can be answered from it. Photos whose licence ATTRIBUTION.md doubts are left out.

    Returns:
        [] if the split that is searched is not one of the mini set, or is not prepared.
    """
    if about is None or about.split not in SPLITS or not (cache / "kg" / about.split / "kg.jsonl").is_file():
        return []
    from mini_crag_mm.loader import SET, PreparedSet  # with the library `datasets`

    prepared = PreparedSet(about.split, cache)
    doubtful = SET.attribution.read_text(encoding="utf-8")
    try:
        data = prepared.sessions("single-turn")
    except EvaluationError as error:
        _log.warning("the page has no examples: %s", error)
        return []
    found: dict[str, tuple[Image.Image, str]] = {}
    for session in data.sessions:
        turn = session.turns[0]
        facts = prepared.facts.get(turn.interaction_id, {})
        clear = turn.image_quality == "normal" and f"`{facts.get('scene')}`" not in doubtful
        if len(found) < _EXAMPLES and turn.domain not in found and clear and facts.get("answerable"):
            photo = data.image(session).image
            if photo is not None:
                found[turn.domain] = (photo, turn.query)
    return [*found.values()]


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve the page until Ctrl-C.

    Returns:
        0, or 2 if the agent cannot be put together.
    """
    options = WebOptions.parse(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
    try:
        answerer = start(options)
        from apps.page import Example, build_page_app
    except CannotStartError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except ImportError as error:
        told = f"the page needs gradio ({error}); run make web, or pip install -r requirements/web.txt"
        print(f"error: {told}", file=sys.stderr)
        return 2
    app = build_page_app(answerer, [Example(*each) for each in choose_examples(answerer.about, options.cache)])
    print(f"http://{options.host}:{options.port} answers as {options.preset}", file=sys.stderr)
    run(app, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
