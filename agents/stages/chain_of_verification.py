"""Chain of verification in two phases, a holistic check and one by sub-questions (CRUISE, section 3.4 and appendix A.4)."""

from __future__ import annotations

from collections.abc import Sequence

from agents.methods.knowledge_conflict import says_something
from agents.methods.verification_chain import parse_chain
from agents.stage import Context, Stage
from agents.turn import Turn


class VerificationChain(Stage):
    """Confidence in the candidate, checked as a whole and by sub-questions (CRUISE), in one batched call.

    Both phases are one prompt, and the reply says its confidence first so that a cut one has it too.
    """

    fills = ("chain",)
    templates = ("chain_of_verification",)
    kind = "verifies"
    least_seconds, wanted_seconds = 1.0, 2.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``chain`` of the turns that have an answer to verify."""
        concerned = [
            (turn, turn.candidate.text)
            for turn in turns
            if turn.candidate is not None and says_something(turn.candidate.text)
        ]
        prompt = context.prompts["chain_of_verification"]
        requests = [
            prompt.request(image=turn.image, question=turn.question, evidence=turn.shown, answer=answer)
            for turn, answer in concerned
        ]
        replies = context.ask(prompt, requests)
        for (turn, _), reply in zip(concerned, replies, strict=True):
            if reply.finish_reason != "error":
                turn.chain = parse_chain(reply.text)
                turn.note(
                    cov_confidence=turn.chain.confidence,
                    reasoning=turn.chain.reasoning,
                    findings=[
                        f"{finding.question}: {'supported' if finding.supported else 'unsupported'}"
                        for finding in turn.chain.findings
                    ],
                    finish_reason=reply.finish_reason,
                )
            else:
                turn.note(error=reply.error)
