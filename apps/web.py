"""A web page to try an agent: ``make web``, or ``python -m apps.web`` with requirements/web.txt."""

import logging
import os
import sys
from collections.abc import Sequence

from pydantic import Field

from apps.answering import AnswererOptions, CannotStartError, start
from apps.examples import find_examples
from apps.http_server import HttpOptions, run


class WebOptions(HttpOptions, AnswererOptions):
    """A web page to try an agent."""

    port: int = Field(7860, description="port to listen on")


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
        from apps.page import build_page_app
    except CannotStartError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except ImportError as error:
        message = f"the page needs gradio ({error}): run make web, then .venv-web/bin/python -m apps.web with the same options"
        print(f"error: {message}", file=sys.stderr)
        return 2
    app = build_page_app(answerer, find_examples(answerer.about, options.knowledge))
    print(f"http://{options.host}:{options.port} answers as {options.preset}", file=sys.stderr)
    run(app, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
