"""What decides on an answer where nothing is fitted to the models: a verdict, the answer's own tokens and the draft, as witnesses."""

from agents.turn import Verification


def doubt(said: Verification) -> str | None:
    """Return why an answer should be withheld, or None.

    The verdict decides: it is the one witness that reads answer and evidence, and its cut of one half follows from the score. Bounds on
    token probabilities are a number that was published for other replies and models, and a draft that was made before any search is
    often put right by what was found. So neither withholds an answer alone, and both together do. Without a verdict the tokens have to
    approve, and no draft may differ.
    """
    if said.model is False:
        return "the verifier does not approve"
    if said.white_box is False and said.draft is False:
        return "its token probabilities are low, and the draft said something else"
    if said.model is None and (not said.white_box or said.draft is False):
        return "the verifier gave no verdict, and nothing else speaks for the answer"
    return None
