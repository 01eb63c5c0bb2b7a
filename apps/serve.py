"""Serve an agent over OpenAI's chat-completions protocol: ``python -m apps.serve`` (docs/serving.md)."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, model_validator

from agents.base.cluster import ClusterError
from agents.base.command_options import Flag
from agents.base.named import parse_name
from agents.base.printing import log_to_stderr, print_error
from agents.base.secrets import keep_out_of_logs, remember
from agents.time_limits.signals import run_program
from apps.answering import Answerer, AnswererOptions, CannotStartError, open_search, start
from apps.http_server import HttpOptions, get_url, listen, run

if TYPE_CHECKING:
    from apps.serving.app import Server
    from apps.serving.replica_pool import ReplicaPool

KEY_VARIABLE = "CRAG_API_KEY"


class ServeOptions(HttpOptions, AnswererOptions):
    """Serve an agent over OpenAI's chat-completions protocol."""

    no_key: bool = Field(
        False,
        description=f"accept requests without a key; otherwise the key is ${KEY_VARIABLE}, or a new one, which is printed",
    )
    questions: int = Field(32, ge=1, description="maximum number of open questions; more get 429")
    requests_per_minute: int = Field(60, ge=1, description="maximum of requests per address")
    body_mb: int = Field(20, ge=1, description="maximum size of a request")
    pixels: int = Field(50_000_000, ge=1, description="maximum size of a photo")
    replicas: Annotated[int | None, Flag(metavar="N")] = Field(
        None,
        ge=1,
        description="answer with N agents side by side, each in a process of Ray (docs/scale.md); default: one, in this process",
    )
    ray_address: Annotated[str | None, Flag(metavar="HOST:PORT")] = Field(
        None, description="Ray cluster for --replicas, or auto; default: start one on this machine"
    )
    allow_http_images: bool = Field(False, description="fetch photos from public http(s) addresses")

    @model_validator(mode="after")
    def _fit_together(self) -> ServeOptions:
        if self.ray_address is not None and self.replicas is None:
            raise ValueError("--ray-address needs --replicas: give both, or neither")
        if self.trace is not None and self.replicas is not None:
            raise ValueError("--trace needs a single agent: leave out --replicas")
        return self


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until Ctrl-C or SIGTERM.

    Returns:
        0, or 2 if the address cannot be listened on, the key cannot be sent or the agent cannot be put together.
    """
    options = ServeOptions.parse(arguments)
    log_to_stderr()
    keep_out_of_logs()
    try:
        with listen(options) as listener:
            key = None if options.no_key else read_or_make_key()
            with _open_answerer(options) as answerer:
                model = f"crag-mm-{parse_name(options.preset)}"
                server = _build_server(answerer, model, key, options)
                run(server.app, options, listener, f"{get_url(listener)}/v1 answers as {model}")
    except (CannotStartError, ClusterError) as error:
        print_error(f"error: {error}")
        return 2
    return 0


def _open_answerer(options: ServeOptions) -> AbstractContextManager[Answerer | ReplicaPool]:
    """Start the agent in this process, or replicas of it that end with the block."""
    if options.replicas is None:
        return nullcontext(start(options))
    from apps.serving.replica_pool import open_pool

    search = None if options.no_web and options.no_images else partial(open_search, options)
    return open_pool(partial(start, options), search, options.replicas, options.ray_address)


def _build_server(answerer: Answerer | ReplicaPool, model: str, key: str | None, options: ServeOptions) -> Server:
    from apps.serving.app import Server, ServerLimits

    limits = ServerLimits(
        body_bytes=options.body_mb * 1024 * 1024,
        pixels=options.pixels,
        requests_per_minute=options.requests_per_minute,
        questions=options.questions,
        http_pictures=options.allow_http_images,
    )
    return Server(answerer, model=model, key=key, limits=limits)


def read_or_make_key() -> str:
    """Return the key of the environment, else a new one, printed once on standard error.

    Raises:
        CannotStartError: Clients cannot send the key in a header, so that none would be let in.
    """
    key = os.environ.get(KEY_VARIABLE, "").strip()
    if not key:
        key = secrets.token_urlsafe(24)
        print_error(f"{KEY_VARIABLE} is not set; the key of this run is {key}")
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise CannotStartError(f"no client can send {KEY_VARIABLE}: choose a key of printable ASCII without blanks")
    remember(key)
    return key


if __name__ == "__main__":
    run_program(main)
