"""Stage 6: search of the image knowledge graph, and the entity that the picture is taken to show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from agents.stage import Context
from agents.turn import Turn, with_image


class ImageSearch:
    """One search of all pictures of the batch; the best hit above the threshold names the entity."""

    name: ClassVar[str] = "image_search"
    least_seconds: ClassVar[float] = 0.5

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``image_hits``, ``entity`` and ``entity_score``."""
        settings = context.settings.image_search
        concerned = with_image(turns)
        if not concerned or not context.search.image_enabled:
            return
        found = context.search.search_images([turn.image for turn in concerned if turn.image is not None], settings.k)
        for turn, results in zip(concerned, found, strict=True):
            turn.image_hits = results.hits
            named = next((hit for hit in results.hits if hit.entities), None)
            if named is not None and named.score >= settings.min_score:
                turn.entity, turn.entity_score = named.entities[0], named.score
            turn.note(
                hits=[
                    {
                        "name": ", ".join(entity.name for entity in hit.entities),
                        "score": round(hit.score, 4),
                        "url": hit.url,
                    }
                    for hit in results.hits
                ],
                entity=turn.entity.name if turn.entity else None,
                search_error=results.error,
            )
