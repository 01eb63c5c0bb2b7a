"""What the stages of a preset need of a machine: the roles of their models, their searches, the pictures in one prompt."""

from agents.pipeline import stages_of
from agents.prompts import PromptLibrary
from agents.settings import Settings


def roles_of(settings: Settings, prompts: PromptLibrary) -> tuple[str, ...]:
    """The roles that the stages of a preset can ask for, each once, in their order; PromptError where a prompt is missing or malformed."""
    found: dict[str, None] = {}
    for stage in stages_of(settings):
        asked = [prompts[name].settings.model for name in stage.prompts()]
        found.update(dict.fromkeys([*asked, *stage.roles()]))
    return tuple(found)


def searches_of(settings: Settings) -> tuple[bool, bool]:
    """Whether a preset searches images, and whether it searches the web."""
    return "image_search" in settings.stages, "web_search" in settings.stages


def images_of(settings: Settings) -> int:
    """Most pictures that a prompt of a preset shows, the question's own too; one sheet holds all where ``limits.pictures`` allows fewer."""
    most = 1 + max((stage.pictures() for stage in stages_of(settings)), default=0)
    return most if settings.limits.pictures is None else min(most, settings.limits.pictures)
