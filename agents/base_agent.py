"""The organiser's agent interface: the only thing the evaluator knows of an agent."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from PIL import Image

Message = dict[str, str]  # one entry of a dialog history: ``{"role": "user" | "assistant", "content": str}``


class BaseAgent(ABC):
    """Agent that the evaluator builds once (within 10 minutes), with its ``UnifiedSearchPipeline`` if there is one, and then asks."""

    def __init__(self, search_pipeline: Any = None) -> None:
        self.search_pipeline = search_pipeline

    @abstractmethod
    def get_batch_size(self) -> int:
        """Return how many turns the evaluator passes in one call, 1 to 16."""

    @abstractmethod
    def batch_generate_response(
        self,
        queries: Sequence[str],
        images: Sequence[Image.Image | None],  # one for each query, of any mode and size
        message_histories: Sequence[Sequence[Message]] | None = None,  # for each ``[]`` or user and assistant in turn
        **kwargs: Any,  # further arguments of later releases of the evaluator (``rag_context_list``, ``domains``)
    ) -> list[str]:
        """Answer each query, in order.

        The evaluator cuts each answer at 75 Llama-3.2 tokens, ``<|begin_of_text|>`` included.
        """
