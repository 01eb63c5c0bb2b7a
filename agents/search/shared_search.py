"""One search for all agents of a machine: an actor of Ray with indices and encoders, and its client (docs/scale.md)."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from PIL import Image

from agents.base.cluster import MAX_DEATHS, START_SECONDS, GoneError, NodeActor
from agents.search.hits import Hit, ImageHit, Results, SearchError, WebHit
from agents.search.searchers import IMAGE_BATCH, TEXT_BATCH, ReadySearch, image_searcher, web_searcher
from agents.search.together import Together
from agents.time_limits.deadline import NO_DEADLINE, Deadline

_log = logging.getLogger(__name__)

_READ = ("image_search", "web_search", "picture_folder", "page_folder", "own_pages", "languages")
"""Attributes of a pipeline that the gateway reads."""

T = TypeVar("T")


class SearchActor(NodeActor):
    """Runs in the process of Ray: a pipeline that searches several agents' queries as one batch.

    Until it is created Ray has calls wait, or fail at once if it died before.

    Args:
        open_pipeline: Opens the pipeline; it is sent to the process. ``open`` raises what it raises.
        threads: Threads of PyTorch for all agents together; at most one a core.
        folder: See ``NodeActor``.
    """

    def __init__(self, open_pipeline: Callable[[], Any], threads: int, folder: str) -> None:
        super().__init__(folder)
        import torch

        torch.set_num_threads(threads)
        self._fault: Exception | None = None
        pipeline = None
        try:
            pipeline = open_pipeline()
        except Exception as error:  # noqa: BLE001 - of a constructor Ray would tell the trace alone
            self._fault = error
        self._images = Together(image_searcher(pipeline).search, IMAGE_BATCH)
        self._web = Together(web_searcher(pipeline).search, TEXT_BATCH)
        self._about = {name: getattr(pipeline, name, None) for name in _READ}
        self._about["languages"] = self._about["languages"] or ()

    def open(self) -> dict[str, Any]:
        """Return the attributes of the pipeline that the gateway reads.

        Raises:
            Exception: Any error of opening the pipeline.
        """
        if self._fault is not None:
            raise self._fault
        return self._about

    def images(self, pictures: Sequence[npt.NDArray[np.uint8]], k: int, seconds: float) -> list[Results[ImageHit]]:
        """Search RGB pictures of shape (height, width, 3); see ``Together.search``."""
        return self._images.search([Image.fromarray(picture) for picture in pictures], k, seconds)

    def pages(self, queries: Sequence[str], k: int, seconds: float) -> list[Results[WebHit]]:
        """Search pages; see ``Together.search``."""
        return self._web.search(queries, k, seconds)


class SharedSearch(ReadySearch):
    """Replaces a pipeline that a ``SearchActor`` of the same machine has. It is opened on creation.

    Args:
        actor: The actor's handle.

    Raises:
        GoneError: The actor has died and Ray does not start it again, or it was not opened within ``START_SECONDS``.
        Exception: Any error of opening the pipeline.
    """

    def __init__(self, actor: Any) -> None:
        self.actor = actor
        self._lost = threading.Event()
        self._on_loss: Callable[[], object] = lambda: None
        super().__init__(_Images(self._ask), _Pages(self._ask), **self._open())

    def kept_up(self, ask: Callable[[], T], cancel: Callable[[], object], cancelled: type[Exception]) -> T:
        """Return the result of a call of the agent, and repeat the call if the actor dies meanwhile.

        The call is cancelled, and made again once the search is back. After ``MAX_DEATHS`` the call goes to its end with the errors of the
        searches that fail.

        Args:
            ask: Makes the call.
            cancel: Has the call raise ``cancelled``.
            cancelled: Error of the call when it is cancelled. If the actor did not die, it is raised on.
        """
        self._on_loss = cancel
        for _ in range(MAX_DEATHS):
            self._lost.clear()
            try:
                return ask()
            except cancelled:
                if not self._lost.is_set():
                    raise
                _log.warning("the search of this machine died; the questions are asked again once it is back")
                self._open()
        self._on_loss = lambda: None
        return ask()

    def _open(self) -> dict[str, Any]:
        import ray

        try:
            opening = self.actor.open.options(max_task_retries=-1).remote()  # waits while Ray starts the actor again
            about: dict[str, Any] = ray.get(opening, timeout=START_SECONDS)
        except ray.exceptions.GetTimeoutError:
            raise GoneError(f"the search of this machine is not open after {START_SECONDS:.0f} s") from None
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except ray.exceptions.RayError as error:
            raise GoneError(f"the search of this machine has died: {error}") from error
        return about

    def _ask(self, method: str, queries: Sequence[Any], k: int, deadline: Deadline) -> list[Results[Any]]:
        import ray

        seconds = deadline.left()
        if seconds <= 0:
            raise SearchError("no time is left to search")
        try:
            reference = getattr(self.actor, method).remote(queries, k, seconds)
            results: list[Results[Any]] = ray.get(reference, timeout=seconds if math.isfinite(seconds) else None)
        except ray.exceptions.GetTimeoutError:
            raise SearchError(f"the search found nothing within {seconds:.1f} s") from None
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except ray.exceptions.RayError as error:  # not of actors alone: a process out of memory, a full object store
            self._lose()
            raise SearchError("the search of this machine died") from error
        return results

    def _lose(self) -> None:
        self._lost.set()
        self._on_loss()


_Ask = Callable[[str, Sequence[Any], int, Deadline], list[Results[Hit]]]


class _Images:
    def __init__(self, ask: _Ask[ImageHit]) -> None:
        self._ask = ask

    def search(
        self, queries: Sequence[Image.Image], k: int, deadline: Deadline = NO_DEADLINE
    ) -> list[Results[ImageHit]]:
        """Results of RGB images, as arrays: Ray hands those on without a copy."""
        return self._ask("images", [np.asarray(image) for image in queries], k, deadline)


class _Pages:
    def __init__(self, ask: _Ask[WebHit]) -> None:
        self._ask = ask

    def search(self, queries: Sequence[str], k: int, deadline: Deadline = NO_DEADLINE) -> list[Results[WebHit]]:
        """Results of texts."""
        return self._ask("pages", queries, k, deadline)
