"""The platform: V0's worker and attention on the CPU."""

from __future__ import annotations

from typing import Any

from vllm.platforms.cpu import CpuPlatform

from vllm_v0_cpu import kernels

BACKEND = "vllm_v0_cpu.attention.V0Backend"
WORKER = "vllm.worker.cpu_worker.CPUWorker"


class V0CpuPlatform(CpuPlatform):
    """CPU platform whose engines are V0."""

    @classmethod
    def get_attn_backend_cls(cls, *_arguments: Any, **_options: Any) -> str:
        """Name the attention backend of V0."""
        return BACKEND

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Choose V0's worker, and leave the rest to vLLM's own CPU platform."""
        from vllm import _custom_ops
        from vllm.attention.ops import paged_attn
        from vllm.sequence import SequenceGroupMetadata

        SequenceGroupMetadata.token_type_ids = None  # 0.9.2's runner asks for it, 0.10.2 has it no more
        vllm_config.parallel_config.worker_cls = WORKER
        super().check_and_update_config(vllm_config)
        vllm_config.compilation_config.custom_ops = ["none"]  # each layer's own plain torch in the place of its kernel
        _custom_ops.reshape_and_cache = kernels.reshape_and_cache
        _custom_ops.paged_attention_v1 = kernels.paged_attention_v1
        paged_attn.ops = _custom_ops  # which that module imports on GPUs alone

    @classmethod
    def supports_v1(cls, _model_config: Any) -> bool:
        """Return False: what this environment is for is V0."""
        return False
