from collections.abc import Sequence

from agents.methods.candidates import answered
from agents.methods.verification_chain import parse_chain
from agents.stage import Context, Stage
from agents.turn import Turn


class VerificationChain(Stage):
    """Confidence in the candidate, checked as a whole and by sub-questions (CRUISE, section 3.4 and appendix A.4), in one batched call.

    Both phases are one prompt, and the reply says its confidence first so that a cut one has it too.
    """

    fills = ("chain",)
    templates = ("chain_of_verification",)
    kind = "verifies"
    min_seconds, wanted_seconds = 1.0, 2.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``chain`` of the turns that have an answer to verify."""
        for (turn, _), reply in context.ask_each(
            "chain_of_verification", answered(turns), lambda one: {**one[0].values, "answer": one[1].text}
        ):
            if reply.finish_reason == "error":
                turn.note(error=reply.error)
                continue
            chain = turn.chain = parse_chain(reply.text)
            found = [f"{it.question}: {'supported' if it.supported else 'unsupported'}" for it in chain.findings]
            turn.found(checks={"chain of verification": chain.confidence})
            turn.note(reasoning=chain.reasoning, findings=found)
            turn.note(finish_reason=reply.finish_reason)
