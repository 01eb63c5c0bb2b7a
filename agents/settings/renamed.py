"""Old names of stage options, which presets, environment variables and ``--set`` may still use.

``k`` is how many a stage keeps, everywhere; ``k_THING`` where it keeps several things.
"""

import logging
from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel

from agents.profiles.profile import SettingsError

log = logging.getLogger(__name__)

RENAMED: Mapping[str, Mapping[str, str]] = {
    "answer": {"evidence": "k"},
    "dual_answer": {"evidence": "k"},
    "entries": {"max_entries": "k"},
    "evidence": {"entities": "k_entities", "max_chunks": "k"},
    "modality_answers": {"evidence": "k"},
    "objects": {"max_objects": "k"},
    "queries": {"max_queries": "k"},
    "relevance": {"max_chunks": "k_judged", "min_chunks": "k_least"},
    "select_entity": {"several": "k"},
    "two_stage_rerank": {"k1": "k_coarse", "k2": "k"},
    "web_search": {"max_pages": "k_pages"},
}
"""New names by stage and old name."""


def rename_options(table: Mapping[str, Any], schema: type[BaseModel]) -> dict[str, Any]:
    """Return a table of settings with each old name of an option replaced; a warning names it once.

    Args:
        table: Tables by stage, and settings of every preset.
        schema: Settings with a field for the options of each stage. A stage of somebody else's that is called as one of this project keeps
            the names of its own options.

    Raises:
        SettingsError: A stage's table has an option under both names.
    """
    return {
        stage: {_new_name(stage, option, options, schema): value for option, value in options.items()}
        if isinstance(options, Mapping) and stage in RENAMED
        else options
        for stage, options in table.items()
    }


def rename_override(text: str, schema: type[BaseModel]) -> str:
    """Return ``STAGE.OPTION=VALUE`` with the option's new name; any other text as it is."""
    key, separator, value = text.partition("=")
    stage, dot, option = key.strip().partition(".")
    return f"{stage}{dot}{_new_name(stage, option, (), schema)}{separator}{value}" if stage in RENAMED else text


def _new_name(stage: str, option: str, beside: Any, schema: type[BaseModel]) -> str:
    new = RENAMED[stage].get(option)
    field = schema.model_fields.get(stage)
    own = field.annotation.model_fields if field is not None and field.annotation is not None else {}
    if new is None or option in own or new not in own:
        return option
    if new in beside:
        raise SettingsError(f"{stage}.{option} is the old name of {stage}.{new}, and both are set; keep {stage}.{new}")
    _warn_of_old_name(f"{stage}.{option}", f"{stage}.{new}")
    return new


@cache
def _warn_of_old_name(old: str, new: str) -> None:
    log.warning("the setting %s is called %s now; the old name still works, but change it where it is set", old, new)
