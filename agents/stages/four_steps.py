from collections.abc import Sequence

from agents.asking.record import FROM_EVIDENCE, OWN_KNOWLEDGE, RECONCILED
from agents.methods.entry_replies import LETTERS, lettered, parse_four_steps, whole_lines
from agents.methods.knowledge_conflict import prki
from agents.methods.token_probabilities import token_probabilities
from agents.models.base import ChatReply
from agents.stage import Context, Stage
from agents.texts.replies import was_cut
from agents.turn import Candidate, Turn


class FourStepsStage(Stage):
    """All of CoRe-MMRAG (section 3.2) in one prompt: own answer, choice of an entry, answer from it, and which of both is given."""

    min_seconds, wanted_seconds = 1.0, 2.0
    fills = ("parametric", "chosen", "entity", "entity_score", "candidate")
    templates = ("four_steps",)
    kind = "answers"

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``parametric``, ``chosen`` (with ``entity``) and ``candidate``; a reply cut before its end gives its latest answer."""
        for turn, reply in context.ask_each(
            "four_steps",
            turns,
            lambda turn: {**turn.values, **context.show(turn.image, lettered(turn.entries)), "letters": LETTERS},
        ):
            if reply.finish_reason == "error":
                turn.error = turn.error or f"four_steps: {reply.error}"
            else:
                self._read(turn, reply)
            turn.note(reply=reply.text, finish_reason=reply.finish_reason)

    @staticmethod
    def _read(turn: Turn, reply: ChatReply) -> None:
        said = parse_four_steps(whole_lines(reply.text) if was_cut(reply) else reply.text, len(turn.entries))
        statistics = token_probabilities(reply.logprobs)
        confidence = statistics.mean if statistics else None
        if said.parametric:
            turn.parametric = Candidate(said.parametric, confidence, reply.logprobs)
        if said.entry is not None:
            turn.choose(said.entry)
        answer = said.final or said.external or said.parametric
        if answer:
            turn.candidate = Candidate(answer, confidence, reply.logprobs)
        turn.found(
            entity=turn.chosen.title if turn.chosen else None,
            answers={OWN_KNOWLEDGE: said.parametric, FROM_EVIDENCE: said.external, RECONCILED: said.final},
        )
        turn.note(prki=prki(said.parametric, said.external))
