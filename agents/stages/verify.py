"""Stage 13: dual verification (QA-Dragon, section 3.7.2): the answer's own token probabilities, and a model that reads the evidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from agents.methods.first_token import yes_probability
from agents.methods.white_box import accepts, token_probabilities
from agents.models.base import ChatReply
from agents.settings import Verify as VerifySettings
from agents.stage import Context
from agents.texts.refusals import refuses
from agents.texts.replies import labelled, yes_or_no
from agents.turn import Candidate, Turn, Verification


def white_box(candidate: Candidate, settings: VerifySettings) -> bool | None:
    """What the token probabilities say; None for an answer that no model generated."""
    statistics = token_probabilities(candidate.logprobs)
    if statistics is None:
        return None
    return accepts(
        statistics,
        weight_least=settings.weight_least,
        weight_mean=settings.weight_mean,
        threshold=settings.white_box_threshold,
    )


def verdict(reply: ChatReply) -> tuple[bool | None, str]:
    """What the verifying model says, and why; a reply that cannot be read is no approval but no rejection either."""
    if reply.finish_reason == "error":
        return None, reply.error or ""
    said = labelled(reply.text, "response")
    return yes_or_no(said if said is not None else reply.text), labelled(reply.text, "reason") or ""


class Verify:
    """Both verifiers, each over the whole batch; what they say is judged by ``finalise``."""

    name: ClassVar[str] = "verify"
    least_seconds: ClassVar[float] = 1.0
    wanted_seconds: ClassVar[float] = 2.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``verification`` of the turns that have an answer to verify."""
        settings = context.settings.verify
        concerned = [
            turn
            for turn in turns
            if turn.candidate is not None and not refuses(turn.candidate.text) and turn.route != "direct"
        ]
        replies: list[ChatReply | None] = [None] * len(concerned)
        if settings.model and concerned:
            prompt = context.prompts[settings.prompt]
            requests = [
                prompt.request(
                    image=turn.image,
                    question=turn.question,
                    history=turn.history,
                    entity=turn.entity.name if turn.entity is not None else None,
                    evidence=context.evidence(turn, settings.evidence),
                    answer=turn.candidate.text if turn.candidate else "",
                )
                for turn in concerned
            ]
            replies = list(context.models.chat(prompt.settings.model).chat(requests, context.deadline))
        for turn, reply in zip(concerned, replies, strict=True):
            if turn.candidate is None:
                continue
            by_tokens = white_box(turn.candidate, settings) if settings.white_box else None
            by_model, reason = verdict(reply) if reply is not None else (None, "")
            p_yes = yes_probability(reply.opening) if reply is not None else None
            turn.verification = Verification(by_tokens, by_model, reason, p_yes)
            turn.note(white_box=by_tokens, model=by_model, reason=reason, p_yes=p_yes)
