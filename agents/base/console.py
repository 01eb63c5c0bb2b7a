"""The console of all commands: tables, panels and bars, in which texts of strangers cannot steer the terminal."""

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from agents.base.printing import without_escapes


class SafeConsole(Console):
    """Console that prints every text ``without_escapes``; colours and bars, which rich writes itself, stay."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render as rich does, without control characters in texts."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=without_escapes(segment.text))
