from collections.abc import Sequence

from agents.asking.ask import Ask, Question
from agents.asking.readers.verdicts import CHAIN
from agents.methods.candidates import select_answered
from agents.stage import Context, Stage
from agents.turn import Turn

ASK = Ask("chain_of_verification", CHAIN)


class VerificationChain(Stage):
    """Rates the candidate, checked as a whole and by sub-questions (CRUISE, section 3.4 and appendix A.4); one batched call.

    One prompt holds both phases. The reply states its confidence first, so that a reply that is cut off has it too.
    """

    fills = ("chain",)
    doing = "checking the answer part by part"
    asks = (ASK,)
    kind = "verifies"
    min_seconds, wanted_seconds = 1.0, 2.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``chain`` of the turns that have an answer to verify."""
        concerned = select_answered(turns)
        questions = [Question(ASK, {**turn.values, "answer": candidate.text}, (turn,)) for turn, candidate in concerned]
        for (turn, _), answer in zip(concerned, context.put(questions), strict=True):
            if answer.failed:
                continue
            chain = turn.chain = answer.value
            findings = [f"{it.question}: {'supported' if it.supported else 'unsupported'}" for it in chain.findings]
            turn.record(checks={"chain of verification": chain.confidence})
            turn.note(reasoning=chain.reasoning, findings=findings)
