"""What an answer comes from: the photo, the knowledge graph, a page, the model's own knowledge, or a calculation."""

from agents.methods.source_votes import is_supported_by
from agents.turn import Candidate, Origin, Source, Turn

_ORIGINS: dict[Source, Origin] = {"kg": "graph", "web": "page", "photo": "photo"}


def convert_source(source: Source) -> Origin | None:
    """Return the origin that a chunk of evidence stands for; None for an earlier step, which has evidence of its own."""
    return _ORIGINS.get(source)


def find_origin(turn: Turn, candidate: Candidate) -> Origin:
    """Return what an answer comes from.

    A stage that knows it has said so. Else it is the first chunk that holds every name and number which the answer adds to the question;
    without one, the photo if the look says that the picture is enough, and the model's own knowledge otherwise.
    """
    if candidate.computed:
        return "computed"
    if candidate.origin is not None:
        return candidate.origin
    for chunk in turn.shown:
        origin = convert_source(chunk.source)
        if origin is not None and is_supported_by(candidate.text, turn.question, (f"{chunk.title} {chunk.text}",)):
            return origin
    return "photo" if turn.look is not None and turn.look.needs == "picture" else "own"
