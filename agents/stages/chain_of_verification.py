"""Chain of verification in two phases, a holistic check and one by sub-questions (CRUISE, section 3.4 and appendix A.4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from agents.methods.knowledge_conflict import says_something
from agents.methods.verification_chain import ChainOfVerification, parse_chain
from agents.stage import Context
from agents.turn import Turn


class VerificationChain:
    """One batched call; both phases are one prompt, and the reply says its confidence first so that a cut one has it too.

    Where no model can do that, the confidence of the answer itself stands in for the verifier's.
    """

    name: ClassVar[str] = "chain_of_verification"
    least_seconds: ClassVar[float] = 1.0
    wanted_seconds: ClassVar[float] = 2.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``chain`` of the turns that have an answer to verify."""
        concerned = [
            (turn, turn.candidate.text)
            for turn in turns
            if turn.candidate is not None and says_something(turn.candidate.text)
        ]
        if context.settings.chain_of_verification.by == "candidate":
            for turn, _ in concerned:
                turn.chain = ChainOfVerification(turn.candidate.confidence if turn.candidate else None)
                turn.note(cov_confidence=turn.chain.confidence)
            return
        if not concerned:
            return
        prompt = context.prompts["chain_of_verification"]
        most = context.settings.answer.evidence
        requests = [
            prompt.request(
                image=turn.image, question=turn.question, evidence=context.evidence(turn, most), answer=answer
            )
            for turn, answer in concerned
        ]
        replies = context.models.chat(prompt.settings.model).chat(requests, context.deadline)
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
