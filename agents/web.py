"""A web page to try an agent: ``make web``, or ``python -m agents.web`` where requirements/web.txt is installed."""

import argparse
import logging
import os
import sys
from collections.abc import Sequence

from agents.apps.answering import CannotStartError, add_options, start

_QUEUE = 16  # visitors who wait; more are asked to come again
_MOST_FILE = "20mb"


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve the page until Ctrl-C; 2 where the agent cannot be put together."""
    parser = argparse.ArgumentParser(prog="python -m agents.web", description="A web page to try an agent.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: this machine alone)")
    parser.add_argument("--port", type=int, default=7860)
    add_options(parser)
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
    try:
        answerer = start(options)
        from agents.apps.page import CSS, THEME, build
    except CannotStartError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except ImportError as error:
        told = f"the page takes gradio: make web, or pip install -r requirements/web.txt ({error})"
        print(f"error: {told}", file=sys.stderr)
        return 2
    page = build(answerer).queue(max_size=_QUEUE)
    page.launch(
        server_name=options.host,
        server_port=options.port,
        theme=THEME,
        css=CSS,
        max_file_size=_MOST_FILE,
        ssr_mode=False,
        footer_links=[],
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
