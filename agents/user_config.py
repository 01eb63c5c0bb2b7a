"""What the evaluator imports: ``UserAgent(search_pipeline=...)``, or without a pipeline in the research release of the benchmark, which
passes what it found with each call (``rag_context_list``).

The preset and the profile are taken from the environment: ``CRAG_PRESET`` (default ``best``) and ``CRAG_PROFILE`` (default ``gpu``
where CUDA is to be had, else ``embedded``).
"""

from __future__ import annotations

import os
from typing import Any

from agents.base_agent import BaseAgent
from agents.launch import build_agent, warm_up


def _default_profile() -> str:
    import torch  # imported here: the evaluator's import of this module should stay fast

    return "gpu" if torch.cuda.is_available() else "embedded"


class UserAgent(BaseAgent):
    """The submitted agent. Later evaluators' ``model_name`` and ``is_multi_turn`` are accepted; the preset decides both."""

    def __init__(self, search_pipeline: Any = None, **kwargs: Any) -> None:  # noqa: ARG002 - see above
        super().__init__(search_pipeline)
        self._agent = build_agent(
            os.environ.get("CRAG_PRESET", "best"), os.environ.get("CRAG_PROFILE") or _default_profile(), search_pipeline
        )
        warm_up(self._agent)  # here there are 10 minutes for it, in the first call 10 s a turn

    def get_batch_size(self) -> int:
        """How many turns the evaluator passes in one call, 1 to 16."""
        return self._agent.get_batch_size()

    def batch_generate_response(
        self, queries: Any, images: Any, message_histories: Any = None, **kwargs: Any
    ) -> list[str]:
        """Answer each query (see ``BaseAgent``)."""
        return self._agent.batch_generate_response(queries, images, message_histories, **kwargs)
