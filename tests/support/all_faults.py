"""All faults that are tried on every preset."""

from __future__ import annotations

from tests.support.fault_plan import Fault
from tests.support.model_faults import MODEL_FAULTS
from tests.support.search_faults import SEARCH_FAULTS

FAULTS: dict[str, Fault] = {**MODEL_FAULTS, **SEARCH_FAULTS}
"""Of models, searches, caches and disk, by kind; those of stages are in ``tests.support.stage_faults``."""
