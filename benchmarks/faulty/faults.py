"""All faults that are tried on every preset."""

from __future__ import annotations

from benchmarks.faulty.model_faults import MODEL_FAULTS
from benchmarks.faulty.plan import Fault
from benchmarks.faulty.search_faults import SEARCH_FAULTS

FAULTS: dict[str, Fault] = {**MODEL_FAULTS, **SEARCH_FAULTS}
"""Of models, searches, caches and disk, by kind; those of stages are in ``benchmarks.faulty.stage_faults``."""
