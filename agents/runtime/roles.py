"""What the stages of a preset need of a machine: the roles of their models, their searches, the pictures in one prompt."""

from __future__ import annotations

from agents.pipeline import stages_of
from agents.prompts import PromptLibrary
from agents.settings import Settings


def roles_of(settings: Settings, prompts: PromptLibrary) -> tuple[str, ...]:
    """The roles that the stages of a preset can ask for, each once, in the order of the stages.

    PromptError where a prompt that a stage needs is missing or malformed.
    """
    found: dict[str, None] = {}
    for stage in stages_of(settings):
        asked = [prompts[name].settings.model for name in stage.prompts()]
        found.update(dict.fromkeys([*asked, *stage.roles()]))
    return tuple(found)


def searches_of(settings: Settings) -> tuple[bool, bool]:
    """Whether a preset searches images, and whether it searches the web."""
    return "image_search" in settings.stages, "web_search" in settings.stages


def images_of(settings: Settings) -> int:
    """Most pictures that one prompt of a preset shows: the question's own, and those of knowledge entries or documents.

    One sheet holds all of them where ``limits.pictures`` allows fewer.
    """
    most = 1 + max((stage.pictures() for stage in stages_of(settings)), default=0)
    return most if settings.limits.pictures is None else min(most, settings.limits.pictures)
