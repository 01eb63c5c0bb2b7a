"""A web page to try an agent: ``make web``, or ``python -m apps.web`` with requirements/web.txt."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pydantic import Field
from starlette.types import ASGIApp

from agents.base.files import annotate_os_error, format_os_error
from agents.base.printing import log_to_stderr, print_error
from agents.time_limits.signals import run_program
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
        0, or 2 if the address cannot be listened on, uploads have no place, or the page cannot be put together.
    """
    options = WebOptions.parse(arguments)
    log_to_stderr()
    os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
    try:
        with listen(options) as listener, own_upload_folder():
            app = _build_app(options)
            run(app, options, listener, f"{get_url(listener)} answers as {options.preset}")
    except CannotStartError as error:
        print_error(f"error: {error}")
        return 2
    return 0


@contextmanager
def own_upload_folder() -> Iterator[None]:
    """Let gradio keep uploads in a new folder, and remove it at the end of the block.

    gradio names files by their content, so pages that share its folder, that of ``GRADIO_TEMP_DIR``, delete each other's.

    Raises:
        CannotStartError: The folder cannot be made.
    """
    shared = os.environ.get(_UPLOAD_FOLDER)
    with _make_upload_folder(shared) as folder:
        os.environ[_UPLOAD_FOLDER] = os.path.realpath(folder)
        try:
            yield
        finally:
            if shared is None:
                del os.environ[_UPLOAD_FOLDER]
            else:
                os.environ[_UPLOAD_FOLDER] = shared


def _make_upload_folder(shared: str | None) -> tempfile.TemporaryDirectory[str]:
    try:
        with annotate_os_error(f"making a folder for uploads ({_UPLOAD_FOLDER} or TMPDIR says where)"):
            if shared:
                Path(shared).mkdir(parents=True, exist_ok=True)
            return tempfile.TemporaryDirectory(prefix="crag-page-", dir=shared or None)
    except OSError as error:
        raise CannotStartError(format_os_error(error)) from error


def _build_app(options: WebOptions) -> ASGIApp:
    try:
        from apps.page import build_page_app
    except ImportError as error:
        cure = "run make web, then .venv-web/bin/python -m apps.web with the same options"
        raise CannotStartError(f"the page needs gradio ({error}): {cure}") from error
    answerer = start(options)
    return build_page_app(answerer, find_examples(answerer.about, options.knowledge), options.knowledge)


if __name__ == "__main__":
    run_program(main)
