"""The needs of a preset's stages: the roles of their models, the searches, how many pictures a prompt shows."""

from agents.asking.prompts import PromptLibrary
from agents.settings.presets import Settings
from agents.stage import Stage, stage_class


def create_stages(settings: Settings) -> list[Stage]:
    """Create the stages of a preset with their options, in the preset's order."""
    return [stage(settings.options(stage)) for stage in map(stage_class, settings.stages)]


def list_roles(settings: Settings, prompts: PromptLibrary) -> tuple[str, ...]:
    """List the distinct roles that the stages of a preset can ask for, in the order of the stages.

    Raises:
        PromptError: A prompt is missing or malformed.
    """
    roles: dict[str, None] = {}
    for stage in create_stages(settings):
        roles.update(dict.fromkeys([*_chat_roles(stage, prompts), *stage.roles()]))
    return tuple(roles)


def list_chat_roles(settings: Settings, prompts: PromptLibrary) -> tuple[str, ...]:
    """List the distinct roles of the chat models that the stages of a preset ask.

    Raises:
        PromptError: A prompt is missing or malformed.
    """
    return tuple(dict.fromkeys(role for stage in create_stages(settings) for role in _chat_roles(stage, prompts)))


def _chat_roles(stage: Stage, prompts: PromptLibrary) -> list[str]:
    return [prompts[ask.prompt].settings.model for ask in stage.list_asks()]


def find_searches(settings: Settings) -> tuple[bool, bool]:
    """Return whether a preset searches images, and whether it searches the web."""
    searches = {stage.searches for stage in settings.stage_classes.values()}
    return not searches.isdisjoint(("image", "both")), not searches.isdisjoint(("web", "both"))


def count_images(settings: Settings) -> int:
    """Return the maximum number of pictures in a prompt of a preset, the question's own included.

    One sheet contains all of them if ``limits.pictures`` allows fewer.
    """
    limit = 1 + max((stage.pictures() for stage in create_stages(settings)), default=0)
    return limit if settings.limits.pictures is None else min(limit, settings.limits.pictures)
