"""The HTTP side of the server: routes, limits, errors, and counters for Prometheus."""

import asyncio
import contextlib
import logging
import math
import secrets
import time
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, TypeVar

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from limits import RateLimitItem, RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter
from PIL import Image
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from agents.evidence.lookup import Found, LookupQuery
from agents.record import Unanswered
from apps.answering import AgentError, Answerer, CannotStartError, Question
from apps.http_server import build_left_error, read_body, run_until_left
from apps.outcome import Outcome
from apps.serving import description
from apps.serving.batcher import Batcher, Tell
from apps.serving.pictures import DECODE_SECONDS, PhotoReader
from apps.serving.protocol import (
    AGENT_FAILED,
    DONE,
    TIMEOUT,
    ChatRequest,
    ProtocolError,
    build_failure,
    build_reply,
    format_event,
    parse_request,
    split_dialog,
)
from apps.serving.replica_pool import ReplicaPool
from apps.serving.searching import SearchRequest, build_search_reply, parse_search

_DEGRADED_AFTER = 3  # questions in a row without an answer: one bad question is the question's fault
_HEARTBEAT_SECONDS = (
    5.0  # between two signs of life in a stream that waits: proxies close connections that are silent for longer
)

_log = logging.getLogger(__name__)

_SEARCHES_TOGETHER = 32  # as many photos as one pass of the image encoder takes (agents/search/searchers.py)

T = TypeVar("T")

# Buckets of the histograms.
_SECONDS = (0.1, 0.25, 0.5, 1, 2, 3, 5, 7.5, 10, 15, 20, 30, 60)
_SIZES = tuple(range(1, 17))


@dataclass(frozen=True)
class ServerLimits:
    """Limits of a server's requests."""

    body_bytes: int = 20 * 1024 * 1024  # of a request: a photo of 15 MB is 20 MB in base64
    pixels: int = 50_000_000  # of a photo
    decode_seconds: float = DECODE_SECONDS  # for a photo that may take long to decode
    requests_per_minute: int = 60  # of one address
    wrong_keys_per_minute: int = 10  # of one address, which then has to wait even with the right key
    questions: int = 32  # waiting and being answered; more get 429
    read_seconds: float = 30.0  # for a body to arrive
    # From the request to the answer; a call of the embedded profile may take 240 s itself
    answer_seconds: float = 600.0
    search_seconds: float = 30.0  # from a search's request to its reply; on two cores it takes less than one
    http_pictures: bool = False  # whether pictures are fetched from public http addresses


class Server:
    """Routes and state of the server of one agent.

    Args:
        answerer: The agent, or replicas of it.
        model: Name under which clients ask for it.
        key: Key that clients show as ``Authorization: Bearer KEY``; None: no key.
        limits: Limits of requests.
    """

    def __init__(
        self,
        answerer: Answerer | ReplicaPool,
        *,
        model: str,
        key: str | None,
        limits: ServerLimits = ServerLimits(),
    ) -> None:
        self._model, self._key, self._limits = model, key, limits
        self._model_entry = {"id": model, "object": "model", "created": int(time.time()), "owned_by": "crag-mm-agent"}
        self._metrics = Metrics(lambda: self._batcher.inside, lambda: self._photos.inside)
        self._photos = PhotoReader(limits.pixels, limits.decode_seconds, self._metrics.record_decoding)
        calls, cancel = (answerer.size, None) if isinstance(answerer, ReplicaPool) else (1, answerer.cancel)
        self._batcher = Batcher(
            answerer.answer, answerer.batch_size, limits.questions, self._metrics.record_call, calls, cancel
        )
        # Beside the agent's calls: a search takes a fraction of a second, and would wait for answers of many
        self._searches: Batcher[LookupQuery, Found] = Batcher(
            lambda queries, _: answerer.look_up(queries, limits.search_seconds),
            _SEARCHES_TOGETHER,
            limits.questions,
            self._metrics.record_search,
            noun="searches",
        )
        self._take_up = answerer.take_up_index if isinstance(answerer, Answerer) else None
        self._taking_up = asyncio.Lock()
        self._failures = 0  # questions in a row without an answer because something failed
        self._rate = MovingWindowRateLimiter(MemoryStorage())
        self._per_minute = RateLimitItemPerMinute(limits.requests_per_minute)
        self._wrong_keys = RateLimitItemPerMinute(limits.wrong_keys_per_minute)
        self.app = self._build()

    def _build(self) -> FastAPI:
        @contextlib.asynccontextmanager
        async def lifespan(_: FastAPI) -> AsyncIterator[None]:
            async with self._batcher, self._searches:
                yield

        app = FastAPI(title="CRAG-MM agent", lifespan=lifespan, docs_url=None, redoc_url=None, redirect_slashes=False)
        for path, endpoint, replies, more in (
            ("/v1/models", self._models, description.MODELS, description.KEY_REQUEST),
            ("/v1/models/{model}", self._one_model, description.MODEL, description.MODEL_REQUEST),
            ("/health", self._health, description.HEALTH, {}),
            ("/metrics", self._show_metrics, description.METRICS, description.KEY_REQUEST),
        ):
            app.add_api_route(path, endpoint, response_model=None, responses=replies, openapi_extra=more)
            # Balancers and monitors ask by HEAD (RFC 9110, 9.1: every server has it)
            app.add_api_route(path, endpoint, methods=["HEAD"], response_model=None, include_in_schema=False)
            app.add_api_route(f"{path}/", endpoint, response_model=None, include_in_schema=False)
        for path, endpoint, replies, more in (
            ("/v1/chat/completions", self._complete, description.COMPLETION, description.CHAT_REQUEST),
            ("/v1/search", self._look_up, description.SEARCH, description.SEARCH_REQUEST),
            ("/v1/index", self._take_up_index, description.INDEX, description.KEY_REQUEST),
        ):
            app.add_api_route(
                path, endpoint, methods=["POST"], response_model=None, responses=replies, openapi_extra=more
            )
            app.add_api_route(f"{path}/", endpoint, methods=["POST"], response_model=None, include_in_schema=False)
        app.openapi = description.make_openapi(app, self._model)  # type: ignore[method-assign]
        app.add_exception_handler(ProtocolError, _send_refusal)
        app.add_exception_handler(HTTPException, _send_no_route)
        app.add_exception_handler(Exception, _send_fault)
        return app

    async def _complete(self, request: Request) -> Response:
        return await self._run_counted(request, self._answer, self._metrics.requests)

    async def _look_up(self, request: Request) -> Response:
        return await self._run_counted(request, self._search, self._metrics.searches)

    async def _take_up_index(self, request: Request) -> Response:
        """Search the index that is in the cache now, without a restart; questions go on meanwhile.

        Raises:
            ProtocolError: The index of this server cannot be replaced, or the new one cannot be opened.
        """
        self._admit(request)
        if self._take_up is None:
            message = (
                "this server keeps the index that it began with (it has replicas, or no index of its cache); restart it"
            )
            raise ProtocolError(400, message, "index_fixed")
        async with self._taking_up:
            try:
                taken_up = await asyncio.to_thread(self._take_up)
            except CannotStartError as error:
                _log.error("the index cannot be taken up: %s", error)
                message = (
                    "the index cannot be opened, and the one before is searched on; the log of the server says why"
                )
                raise ProtocolError(502, message, "index_failed") from error
        _log.info("searching the index %s", taken_up.revision)
        return JSONResponse({"object": "index", **vars(taken_up)})

    async def _run_counted(
        self, request: Request, work: Callable[[Request, float], Coroutine[Any, Any, Response]], counter: Counter
    ) -> Response:
        """Admit a request, do its work, and count how it ended.

        Raises:
            ProtocolError: There is no reply, or the web server stops: it cancels the requests that outlast its grace, and only those.
        """
        began = time.monotonic()
        try:
            self._admit(request)
            try:
                response = await work(request, began)
            except asyncio.CancelledError:
                raise _build_stopping_error() from None
        except Exception as error:
            refusal = error if isinstance(error, ProtocolError) else _build_fault(error)
            counter.labels(refusal.status, refusal.code or "").inc()
            raise
        if not isinstance(response, StreamingResponse):
            counter.labels(200, "").inc()
        return response

    def _admit(self, request: Request) -> None:
        """Check the key and the rate of a client before a byte of the body is read."""
        self._authorise(request)
        client = _get_address(request)
        if not self._rate.hit(self._per_minute, client):
            raise self._build_rate_error(self._per_minute, client, noun="requests")

    def _authorise(self, request: Request) -> None:
        if self._key is None:
            return
        client = _get_address(request)
        if not self._rate.test(self._wrong_keys, "wrong key", client):
            raise self._build_rate_error(self._wrong_keys, "wrong key", client, noun="wrong keys")
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not secrets.compare_digest(key.strip().encode(), self._key.encode()):
            message = (
                "a valid key is needed: Authorization: Bearer KEY (the server printed it, or has it from CRAG_API_KEY)"
            )
            if key:  # only a wrong key counts as a guess; a request without one does not
                self._rate.hit(self._wrong_keys, "wrong key", client)
            raise ProtocolError(401, message, "invalid_api_key")

    def _build_rate_error(self, item: RateLimitItem, *names: str, noun: str) -> ProtocolError:
        wait = max(1, math.ceil(self._rate.get_window_stats(item, *names).reset_time - time.time()))
        return ProtocolError(429, f"more than {item.amount} {noun} a minute", "rate_limit_exceeded", retry_after=wait)

    async def _answer(self, request: Request, began: float) -> Response:
        identity = f"chatcmpl-{uuid.uuid4().hex}"
        self._batcher.refuse_if_full()
        body = await read_body(request, self._limits.body_bytes, self._limits.read_seconds)
        with contextlib.ExitStack() as place:
            place.enter_context(self._batcher.place())
            chat_request = await asyncio.to_thread(parse_request, body)
            del body  # large, and the answer may take long
            self._check_model(chat_request.model)
            limit = self._limits.answer_seconds
            question = await run_until_left(request, self._run_in_time(self._read_question(chat_request), began, limit))
            if chat_request.stream:
                ending = _Ending()
                place.callback(lambda: self._metrics.requests.labels(*ending.labels).inc())
                return _Stream(self._stream(identity, question, began, ending), ending, place.pop_all())
            outcome = await run_until_left(request, self._ask(question, began))
        return JSONResponse(build_reply(identity, int(time.time()), self._model, outcome))

    async def _search(self, request: Request, began: float) -> Response:
        self._searches.refuse_if_full()
        body = await read_body(request, self._limits.body_bytes, self._limits.read_seconds)
        with self._searches.place():
            search_request = await asyncio.to_thread(parse_search, body)
            del body  # large, and searches may wait for others
            work = self._run_in_time(self._find(search_request), began, self._limits.search_seconds)
            found = await run_until_left(request, work)
        if found.error:
            _log.error("a search failed: %s", found.error)
        return JSONResponse(build_search_reply(found))

    async def _find(self, search_request: SearchRequest) -> Found:
        photo = None
        if search_request.image is not None:
            try:
                photo = await self._read_photo(search_request.image)
            except ProtocolError as error:
                raise error.name_param("image") from error.__cause__
        query = LookupQuery(photo, search_request.box, search_request.text, search_request.k)
        try:
            return await self._searches.ask(query)
        except AgentError as error:
            return Found(error=str(error))

    async def _read_question(self, chat_request: ChatRequest) -> Question:
        text, history, url = split_dialog(chat_request)
        if url is None:
            return Question(text, None, history)
        return Question(text, await self._read_photo(url), history)

    async def _read_photo(self, url: str) -> Image.Image:
        """Load and decode the photo behind a URL.

        Raises:
            ProtocolError: It cannot be used.
        """
        limits = self._limits
        data = await self._photos.load(url, max_bytes=limits.body_bytes, http=limits.http_pictures)
        return await self._photos.decode(data)

    async def _run_in_time(self, work: Coroutine[Any, Any, T], began: float, seconds: float) -> T:
        """Await work, at most until ``seconds`` after the request began.

        Raises:
            ProtocolError: The time is over.
        """
        limit = asyncio.timeout(seconds - (time.monotonic() - began))
        try:
            async with limit:
                return await work
        except TimeoutError:
            if not limit.expired():
                raise
            message = f"no answer within {seconds:g} s"
            raise ProtocolError(TIMEOUT, message, "timeout") from None

    async def _ask(self, question: Question, began: float, tell: Tell | None = None) -> Outcome:
        try:
            outcome = await self._run_in_time(self._batcher.ask(question, tell), began, self._limits.answer_seconds)
        except ProtocolError as error:
            if error.status == TIMEOUT:
                self._note_failure(Unanswered.TIME, str(error))
            raise
        except Exception as error:  # AgentError, or what a wrong reply of the agent caused
            message = str(error) if isinstance(error, AgentError) else f"the agent failed ({type(error).__name__})"
            self._note_failure(Unanswered.AGENT, message)
            raise ProtocolError(500, message, AGENT_FAILED) from error
        if outcome.failed and outcome.cause is not None:
            self._note_failure(outcome.cause, outcome.error or "")
            raise build_failure(outcome)
        if outcome.error:
            _log.warning("a question was answered, but something went wrong: %s", outcome.error)
        self._failures = 0
        self._metrics.seconds.observe(time.monotonic() - began)
        if outcome.abstained:
            self._metrics.abstained.inc()
        return replace(outcome, question=outcome.question or question.text)

    def _note_failure(self, cause: Unanswered, reason: str) -> None:
        """Count and log a question without an answer. A photo that cannot be read says nothing of the server."""
        self._metrics.failures.labels(cause.value).inc()
        _log.error("a question was not answered: %s", reason)
        if cause is not Unanswered.PICTURE:
            self._failures += 1

    async def _stream(self, identity: str, question: Question, began: float, ending: "_Ending") -> AsyncIterator[str]:
        """Yield the stages of the agent's call, then the answer in one piece.

        Every preset has rules that read the whole answer and may withhold it, so no part of it may be sent before.
        """
        created = int(time.time())
        stages: asyncio.Queue[str] = asyncio.Queue()
        asking = asyncio.ensure_future(self._ask(question, began, stages.put_nowait))
        try:
            yield format_event(build_reply(identity, created, self._model, None, {"role": "assistant", "content": ""}))
            async for stage in _list_stages(asking, stages):
                if stage is None:
                    yield ": waiting\n\n"
                else:
                    yield format_event(build_reply(identity, created, self._model, None, {"content": ""}, stage))
            outcome = await asking
            yield format_event(build_reply(identity, created, self._model, None, {"content": outcome.answer}))
            yield format_event(build_reply(identity, created, self._model, outcome, {}))
            ending.error = None
            yield DONE
        except ProtocolError as error:
            yield ending.write(error)
        except Exception as error:  # noqa: BLE001 - the status is sent already, so no handler can answer
            _log.exception("a stream failed")
            yield ending.write(_build_fault(error))
        finally:
            asking.cancel()  # where the client has left

    async def _models(self, request: Request) -> Response:
        self._authorise(request)
        return JSONResponse({"object": "list", "data": [self._model_entry]})

    async def _one_model(self, request: Request) -> Response:
        self._authorise(request)
        self._check_model(request.path_params["model"])
        return JSONResponse(self._model_entry)

    def _check_model(self, name: str) -> None:
        if name != self._model:
            message = f"there is no model {name!r}; this server has {self._model!r}"
            raise ProtocolError(404, message, "model_not_found", param="model")

    async def _health(self) -> Response:
        limits = self._limits
        stuck = self._batcher.runs_longer_than(limits.answer_seconds) or self._searches.runs_longer_than(
            limits.search_seconds
        )
        degraded = self._failures >= _DEGRADED_AFTER
        state = {
            "status": "stuck" if stuck else "degraded" if degraded else "ok",
            "model": self._model,
            "questions": self._batcher.inside,
            "calls": self._batcher.running,
            "photos": self._photos.inside,
            "failures": self._failures,
        }
        return JSONResponse(state, 503 if stuck else 200)

    async def _show_metrics(self, request: Request) -> Response:
        self._authorise(request)
        return Response(self._metrics.render(), media_type="text/plain; version=0.0.4; charset=utf-8")


class Metrics:
    """Metrics of one server, in a registry of its own.

    Args:
        inside: Counts the questions that wait or are being answered.
        photos: Counts the photos that wait or are being decoded.
    """

    def __init__(self, inside: Callable[[], int], photos: Callable[[], int]) -> None:
        own = self._registry = CollectorRegistry()
        description = "Requests for a completion by HTTP status and error code"
        self.requests = Counter("crag_requests", description, ["status", "code"], registry=own)
        self.abstained = Counter("crag_abstentions", "Answers that say I don't know", registry=own)
        description = "Questions without an answer because something failed, by cause"
        self.failures = Counter("crag_failures", description, ["cause"], registry=own)
        description = "From the request to its answer"
        self.seconds = Histogram("crag_request_seconds", description, buckets=_SECONDS, registry=own)
        self._calls = Histogram("crag_call_seconds", "One call of the agent", buckets=_SECONDS, registry=own)
        self._sizes = Histogram("crag_batch_size", "Questions in one call", buckets=_SIZES, registry=own)
        Gauge("crag_questions_inside", "Questions waiting or being answered", registry=own).set_function(inside)
        description = "Searches by HTTP status and error code"
        self.searches = Counter("crag_searches", description, ["status", "code"], registry=own)
        self._search_seconds = Histogram("crag_search_seconds", "One batch of searches", buckets=_SECONDS, registry=own)
        self._search_sizes = Histogram("crag_search_batch_size", "Searches in one batch", buckets=_SIZES, registry=own)
        self._photos = Histogram("crag_photo_seconds", "Decoding of one photo", buckets=_SECONDS, registry=own)
        Gauge("crag_photos_inside", "Photos waiting or being decoded", registry=own).set_function(photos)

    def record_call(self, size: int, seconds: float) -> None:
        """Record a call of the agent."""
        self._sizes.observe(size)
        self._calls.observe(seconds)

    def record_search(self, size: int, seconds: float) -> None:
        """Record a batch of searches."""
        self._search_sizes.observe(size)
        self._search_seconds.observe(seconds)

    def record_decoding(self, seconds: float) -> None:
        """Record the seconds until a photo was decoded or refused."""
        self._photos.observe(seconds)

    def render(self) -> bytes:
        """Render the metrics in the text format of Prometheus."""
        return generate_latest(self._registry)


@dataclass
class _Ending:
    """Record of how a stream ended; ``error`` is None after an answer. Its client left, unless it came to an end."""

    error: ProtocolError | None = field(default_factory=build_left_error)

    @property
    def labels(self) -> tuple[int, str]:
        """Status and code for the metrics."""
        return (200, "") if self.error is None else (self.error.status, self.error.code or "")

    def write(self, error: ProtocolError) -> str:
        """Return the last event of a stream that ends with an error."""
        self.error = error
        return format_event(error.body)


class _Stream(StreamingResponse):
    """Stream that gives its place back when it ends, whether or not a byte of it was sent."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncIterator[str], ending: _Ending, place: contextlib.ExitStack) -> None:
        super().__init__(events, headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"})
        self._ending, self._place = ending, place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._place:
            try:
                await super().__call__(scope, receive, send)
            except asyncio.CancelledError:  # the web server stops; a client who leaves cancels nothing out here
                last = self._ending.write(_build_stopping_error()).encode()
                await send({"type": "http.response.body", "body": last, "more_body": False})


async def _list_stages(asking: asyncio.Future[Outcome], stages: asyncio.Queue[str]) -> AsyncIterator[str | None]:
    """Yield the stages until a question is answered, and None after each silence after which a proxy might give up."""
    while not (asking.done() and stages.empty()):
        telling = asyncio.ensure_future(stages.get())
        either: set[asyncio.Future[Any]] = {asking, telling}
        try:
            done, _ = await asyncio.wait(either, timeout=_HEARTBEAT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not telling.done():
                telling.cancel()
        if telling in done:
            yield telling.result()
        elif not done:
            yield None


def _build_stopping_error() -> ProtocolError:
    message = "the server stopped before the answer was ready; ask again once it is back"
    return ProtocolError(503, message, "server_stopping")


def _get_address(request: Request) -> str:
    return request.client.host if request.client else ""


async def _send_refusal(_: Request, error: Exception) -> Response:
    assert isinstance(error, ProtocolError)
    return JSONResponse(error.body, error.status, error.headers)


async def _send_no_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = f"{request.method} {request.url.path}: {error.detail}"
    if error.status_code == HTTPStatus.NOT_FOUND:
        message += (
            "; this server speaks chat completions: name its address with /v1 at the end, as base_url, and use POST "
            "/v1/chat/completions, because it has no Responses API (more: /openapi.json)"
        )
    refusal = ProtocolError(error.status_code, message, "no_such_route")
    return JSONResponse(refusal.body, refusal.status, error.headers)  # such as Allow


async def _send_fault(request: Request, error: Exception) -> Response:
    return await _send_refusal(request, _build_fault(error))


def _build_fault(error: Exception) -> ProtocolError:
    return ProtocolError(500, f"the server failed ({type(error).__name__})", "server_failed")
