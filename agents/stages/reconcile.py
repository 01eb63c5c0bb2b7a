from collections.abc import Sequence
from typing import Any

from agents.asking.record import FROM_EVIDENCE, OWN_KNOWLEDGE, RECONCILED
from agents.methods.candidates import candidate_of
from agents.methods.knowledge_conflict import prki, says_something
from agents.stage import Context, Stage
from agents.turn import Candidate, Turn


class Reconcile(Stage):
    """Where own and retrieved answer differ the model decides (CoRe-MMRAG, section 3.2, step 4, eq. 7), in one batched call."""

    fills = ("candidate",)
    templates = ("reconcile",)

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Replace ``candidate``, the retrieved answer, by the reconciled one."""
        disagreeing: list[tuple[Turn, Candidate, Candidate]] = []
        for turn in turns:
            own, retrieved = turn.parametric, turn.candidate
            said = {"parametric": own.text if own else None, "retrieved": retrieved.text if retrieved else None}
            differ = prki(said["parametric"], said["retrieved"])
            turn.found(answers={OWN_KNOWLEDGE: said["parametric"], FROM_EVIDENCE: said["retrieved"]})
            turn.note(prki=differ)
            if differ and own is not None and retrieved is not None:
                disagreeing.append((turn, own, retrieved))
            elif says_something(said["parametric"]) and not says_something(said["retrieved"]):
                turn.candidate = own
        for (turn, _, retrieved), reply in context.ask_each("reconcile", disagreeing, _values):
            turn.candidate = candidate_of(reply) or retrieved
            turn.found(answers={RECONCILED: turn.candidate.text})
            turn.note(error=reply.error)


def _values(differing: tuple[Turn, Candidate, Candidate]) -> dict[str, Any]:
    turn, own, retrieved = differing
    return {
        **turn.values,
        "evidence": turn.shown if turn.chosen is None else (),
        "images": (turn.chosen.image,) if turn.chosen and turn.chosen.image else (),
        "own": own.text,
        "retrieved": retrieved.text,
        "entry": turn.chosen,
    }
