"""Seconds of one batched call under a profile, by the token-cost model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from agents.settings.run_config import RunConfig
from apps.preflight.architecture import Architecture
from apps.preflight.checkpoints import SEARCH_PICTURES, SEARCH_WEB
from apps.preflight.memory import estimate_memory
from lab.benchmarks.latency.cost import Machine, estimate_decode, estimate_prefill
from tests.support.local_configs import use_local_configs
from tests.support.meter import ModelCall


@dataclass(frozen=True)
class PlacedModel:
    """A model as the profile loads it, with ``at_once`` requests in one pass.

    ``engine`` says whether it is a vLLM engine.
    """

    architecture: Architecture
    dtype: str
    at_once: int
    engine: bool

    @property
    def keeps_prefixes(self) -> bool:
        """True if its engine has a prefix cache: vLLM's, but for Llama-3.2-Vision."""
        vision = self.architecture.vision
        return self.engine and not (vision is not None and vision.masked)


def place_models(config: RunConfig) -> dict[str, PlacedModel]:
    """Return the models of a preset on the GPU by role, those of the search included.

    Their figures are those of ``tests.support.local_configs``.

    Raises:
        agents.profiles.profile.SettingsError: The profile names no model for a role of the preset.
        apps.preflight.architecture.ArchitectureError: A model has no config.json here.
    """
    placements: dict[str, PlacedModel] = {}
    for row in estimate_memory(use_local_configs(config)).rows:
        size = row.at_once or int(row.checkpoint.options.get("batch_size", 1))
        for role in row.checkpoint.roles:
            placements[role] = PlacedModel(row.architecture, row.dtype, size, row.engine)
    return placements


def estimate_seconds(
    call: ModelCall, models: Mapping[str, PlacedModel], machine: Machine, reply_share: float = 1.0
) -> float:
    """Estimate the seconds of one call.

    ``reply_share`` is the share of its limit that a reply takes, 1 in the worst case.
    """
    if call.role == "search":
        return _estimate_search(call, models, machine)
    model = models.get(call.role)
    if model is None:  # it runs on the CPU beside the GPU: rules over text
        return machine.overhead["call"]
    if call.method == "chat":
        return _estimate_chat(call, model, machine, reply_share)
    tokens, pictures = call.characters / machine.characters, call.pictures
    if call.method == "detect":
        tokens, pictures = float(model.architecture.positions * call.pictures), 0
    passes = math.ceil(call.items / model.at_once)
    work = estimate_prefill(model.architecture, machine, model.dtype, tokens=tokens, pictures=pictures)
    return work + passes * machine.overhead["call"]


def _estimate_chat(call: ModelCall, model: PlacedModel, machine: Machine, reply_share: float) -> float:
    """Estimate a chat call; requests beyond those that go at once wait."""
    waves = math.ceil(call.items / model.at_once)
    share = 1 / waves
    tokens, pictures = call.characters / machine.characters * share, call.pictures * share
    wave = estimate_prefill(
        model.architecture,
        machine,
        model.dtype,
        tokens=tokens,
        pictures=pictures,
        known_tokens=call.known_characters / machine.characters * share,
        known_pictures=call.known_pictures * share,
        encoded_pictures=call.encoded_pictures * share,
    ) + estimate_decode(
        model.architecture,
        machine,
        model.dtype,
        steps=math.ceil(call.reply * reply_share),
        batch=math.ceil(call.items * share),
        tokens=tokens,
        pictures=pictures,
        overhead=machine.overhead["step" if model.engine else "transformers_step"],
    )
    return waves * wave + call.items * machine.overhead["request"] + call.pictures * machine.overhead["picture"]


def _estimate_search(call: ModelCall, models: Mapping[str, PlacedModel], machine: Machine) -> float:
    model = models.get(SEARCH_PICTURES if call.method == "search_images" else SEARCH_WEB)
    if model is None:
        return call.items * machine.overhead["vector_query"]
    tokens = 0 if call.method == "search_images" else call.items * machine.query_tokens
    work = estimate_prefill(model.architecture, machine, model.dtype, tokens=tokens, pictures=call.pictures)
    return work + machine.overhead["call"] + call.items * machine.overhead["vector_query"]
