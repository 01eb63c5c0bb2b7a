"""Possible answers of turns, and their origins: the photo, the graph, a page, the model's own knowledge, or a calculation."""

from collections.abc import Sequence

from agents.english.knowledge_conflict import find_claim, find_negations, get_given_words, is_same_answer
from agents.methods.source_votes import is_supported_by
from agents.methods.token_probabilities import summarise_probabilities
from agents.texts.refusals import refuses
from agents.turn import IDK, Candidate, Draft, Origin, Source, Turn

_ORIGINS: dict[Source, Origin] = {"kg": "graph", "web": "page", "photo": "photo"}


def select_answered(turns: Sequence[Turn]) -> list[tuple[Turn, Candidate]]:
    """Return the turns whose candidate asserts something, each with its candidate."""
    pairs = ((turn, turn.candidate) for turn in turns)
    return [(turn, candidate) for turn, candidate in pairs if candidate is not None and not refuses(candidate.text)]


def convert_draft(draft: Draft) -> Candidate:
    """Convert a draft to a candidate answer."""
    statistics = summarise_probabilities(draft.logprobs)
    return Candidate(
        draft.answer or IDK,
        statistics.mean if statistics else None,
        draft.logprobs,
        reasoning=draft.reasoning,
        drafted=True,
    )


def trusts_draft(turn: Turn) -> bool:
    """Return whether the answer is a trusted draft (QA-Dragon, table 1: the direct branch)."""
    return turn.route == "direct" and turn.candidate is not None and turn.candidate.drafted


def agrees_with_draft(turn: Turn, draft: str, answer: str) -> bool:
    """Return whether an answer agrees with a draft: in words, or because it contains every name and number of the draft.

    Both have to say the same yes or no, and to negate alike. The names of the things shown are no claim, unless the words agree: "330
    metres" and "The Eiffel Tower is 330 m high".
    """
    if is_same_answer(draft, answer, turn.question):
        return True
    if find_claim(draft) not in (None, find_claim(answer)) or find_negations(draft) != find_negations(answer):
        return False
    given = " ".join((get_given_words(turn.question), *turn.names_shown(), *(turn.look.names if turn.look else ())))
    return is_supported_by(draft, given, (answer,))


def convert_source(source: Source) -> Origin | None:
    """Return the origin of a chunk of evidence; None for an earlier step, which has evidence of its own."""
    return _ORIGINS.get(source)


def find_origin(turn: Turn, candidate: Candidate) -> Origin:
    """Return the origin of an answer.

    A stage that knows it has said so. Else it is the first chunk that contains every name and number which the answer adds to the question;
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
