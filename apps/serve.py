"""Serve an agent over OpenAI's chat-completions protocol: ``python -m apps.serve`` (docs/serving.md)."""

import argparse
import logging
import os
import secrets
import sys
from collections.abc import Sequence

from agents.runtime.secrets import keep_out_of_logs, remember
from agents.settings.named import name_of
from apps.answering import CannotStartError, add_options, start
from apps.http_server import add_http_options, run

KEY_VARIABLE = "CRAG_API_KEY"


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until Ctrl-C or SIGTERM; 2 where the agent cannot be put together."""
    options = _parser().parse_args(arguments)
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


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("has to be at least 1")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m apps.serve", description="Serve an agent over OpenAI's chat-completions protocol."
    )
    add_http_options(parser, port=8000)
    parser.add_argument(
        "--no-key", action="store_true", help=f"ask for no key; else it is ${KEY_VARIABLE} or a new one"
    )
    parser.add_argument("--questions", type=_positive, default=32, help="waiting and being answered; more get 429")
    parser.add_argument("--requests-per-minute", type=_positive, default=60, help="of one address")
    parser.add_argument("--body-mb", type=_positive, default=20, help="largest request")
    parser.add_argument("--pixels", type=_positive, default=50_000_000, help="largest photo")
    parser.add_argument("--allow-http-images", action="store_true", help="fetch photos from public http(s) addresses")
    add_options(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
