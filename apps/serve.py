"""Serve an agent over OpenAI's chat-completions protocol: ``python -m apps.serve`` (docs/serving.md)."""

import logging
import os
import secrets
import sys
from collections.abc import Sequence

from pydantic import Field

from agents.runtime.secrets import keep_out_of_logs, remember
from agents.settings.named import name_of
from apps.answering import AnswererOptions, CannotStartError, start
from apps.http_server import HttpOptions, run

KEY_VARIABLE = "CRAG_API_KEY"


class ServeOptions(HttpOptions, AnswererOptions):
    """Serve an agent over OpenAI's chat-completions protocol."""

    no_key: bool = Field(False, description=f"ask for no key; else it is ${KEY_VARIABLE} or a new one")
    questions: int = Field(32, ge=1, description="waiting and being answered; more get 429")
    requests_per_minute: int = Field(60, ge=1, description="of one address")
    body_mb: int = Field(20, ge=1, description="largest request")
    pixels: int = Field(50_000_000, ge=1, description="largest photo")
    allow_http_images: bool = Field(False, description="fetch photos from public http(s) addresses")


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until Ctrl-C or SIGTERM; 2 where the agent cannot be put together."""
    options = ServeOptions.parse(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    keep_out_of_logs()
    try:
        answerer = start(options)
    except CannotStartError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    from apps.serving.app import Server, ServerLimits

    key = None if options.no_key else api_key()
    limits = ServerLimits(
        body_bytes=options.body_mb * 1024 * 1024,
        pixels=options.pixels,
        requests_per_minute=options.requests_per_minute,
        questions=options.questions,
        http_pictures=options.allow_http_images,
    )
    server = Server(answerer, model=f"crag-mm-{name_of(options.preset)}", key=key, limits=limits)
    print(f"http://{options.host}:{options.port}/v1 answers as crag-mm-{name_of(options.preset)}", file=sys.stderr)
    run(server.app, options)
    return 0


def api_key() -> str:
    """The key of the environment; else a new one, printed once on standard error."""
    key = os.environ.get(KEY_VARIABLE, "").strip()
    if not key:
        key = secrets.token_urlsafe(24)
        print(f"{KEY_VARIABLE} is not set; the key of this run is {key}", file=sys.stderr)
    remember(key)
    return key


if __name__ == "__main__":
    sys.exit(main())
