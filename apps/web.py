"""A web page to try an agent: ``make web``, or ``python -m apps.web`` with requirements/web.txt."""

import logging
import os
import sys
from collections.abc import Sequence

from pydantic import Field
from starlette.types import ASGIApp

from apps.answering import AnswererOptions, CannotStartError, start
from apps.examples import find_examples
from apps.http_server import HttpOptions, get_url, listen, run


class WebOptions(HttpOptions, AnswererOptions):
    """A web page to try an agent."""

    port: int = Field(7860, ge=0, le=65535, description="port to listen on; 0: any free one")


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve the page until Ctrl-C or SIGTERM.

    Returns:
        0, or 2 if the address cannot be listened on or the page cannot be put together.
    """
    options = WebOptions.parse(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
    try:
        with listen(options) as listener:
            app = _build_app(options)
            run(app, options, listener, f"{get_url(listener)} answers as {options.preset}")
    except CannotStartError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _build_app(options: WebOptions) -> ASGIApp:
    answerer = start(options)
    try:
        from apps.page import build_page_app
    except ImportError as error:
        cure = "run make web, then .venv-web/bin/python -m apps.web with the same options"
        raise CannotStartError(f"the page needs gradio ({error}): {cure}") from error
    return build_page_app(answerer, find_examples(answerer.about, options.knowledge))


if __name__ == "__main__":
    sys.exit(main())
