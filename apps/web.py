"""A web page to try an agent: ``make web``, or ``python -m apps.web`` with requirements/web.txt."""

import logging
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pydantic import Field
from starlette.types import ASGIApp

from apps.answering import AnswererOptions, CannotStartError, start
from apps.examples import find_examples
from apps.http_server import HttpOptions, get_url, listen, run

_UPLOAD_FOLDER = "GRADIO_TEMP_DIR"


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
        with listen(options) as listener, own_upload_folder():
            app = _build_app(options)
            run(app, options, listener, f"{get_url(listener)} answers as {options.preset}")
    except CannotStartError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


@contextmanager
def own_upload_folder() -> Iterator[None]:
    """Let gradio keep uploads in a new folder, and remove it at the end of the block.

    gradio names files by their content, so pages that share its folder, that of ``GRADIO_TEMP_DIR``, delete each other's.
    """
    shared = os.environ.get(_UPLOAD_FOLDER, "")
    if shared:
        Path(shared).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="crag-page-", dir=shared or None) as folder:
        os.environ[_UPLOAD_FOLDER] = os.path.realpath(folder)
        try:
            yield
        finally:
            os.environ[_UPLOAD_FOLDER] = shared  # gradio takes "" for none


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
