"""Parts of the chat-completions protocol that a server refuses: found once, and left out of every later request."""

from collections.abc import Mapping
from typing import Any

from agents.models.chat.server_errors import RefusedError, names_parameter

LIMIT, NEW_LIMIT = "max_tokens", "max_completion_tokens"
"""Limit of a reply, and its name for models that count thoughts too."""

OPTIONAL = ("top_logprobs", "response_format", "logprobs", "seed", "temperature", "stop", "stream", LIMIT)
"""Parameters to drop where a server names them; the limit gets its new name."""

UNNAMED = OPTIONAL[:4]
"""Parameters to drop, one after the other, where a server names none."""

SYSTEM = "system message"
"""Is merged into the user message where the server or its chat template takes none; no parameter, but remembered as one."""


class Dialect:
    """Parameters that one model of a server refuses, those that it is known to take, and whether its boxes are wrong."""

    def __init__(self) -> None:
        self.refused: frozenset[str] = frozenset()
        self._taken: frozenset[str] = frozenset()
        self.box_fault = ""  # why its boxes are not to be used, if a probe found them wrong

    def adapt(self, settings: Mapping[str, Any], refused: frozenset[str], *, exact: bool) -> dict[str, Any]:
        """Return the settings without the refused ones.

        The limit gets its new name, but in an exact request: there it was meant for the reply alone.
        """
        if "logprobs" in refused:
            refused |= {"top_logprobs"}  # mean nothing alone
        adapted = {name: value for name, value in settings.items() if name not in refused}
        if LIMIT in refused and LIMIT in settings and not exact:
            adapted[NEW_LIMIT] = settings[LIMIT]
        return adapted

    def find_culprit(self, error: RefusedError, settings: Mapping[str, Any], *, exact: bool) -> str | None:
        """Return the parameter to give up after a refusal.

        Args:
            error: The refusal.
            settings: Parameters of the request.
            exact: Whether any parameter may be given up, but only if the server names it.

        Returns:
            The name, or None if nothing that may be given up is to blame.
        """
        if error.is_of_content:
            return None
        optional = [name for name in (settings if exact else OPTIONAL) if name in settings]
        named = next((name for name in optional if names_parameter(error.complaint, name)), None)
        if named is not None or exact or error.is_of_roles:
            return named
        return next((name for name in UNNAMED if name in settings and name not in self._taken), None)

    def keep(self, refused: frozenset[str], settings: Mapping[str, Any]) -> None:
        """Remember the parameters that an answered request lacked, and those that it had."""
        self.refused |= refused
        self._taken |= settings.keys() - self.refused


DIALECTS: dict[tuple[str, str], Dialect] = {}
"""By address and model: all callers of a model in this process share its dialect."""


def find_dialect(address: str, model: str) -> Dialect:
    """Return the dialect of a model."""
    return DIALECTS.setdefault((address, model), Dialect())
