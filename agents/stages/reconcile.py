from collections.abc import Sequence
from typing import Any

from agents.asking.ask import Ask, Question
from agents.asking.readers.answers import BRIEF_ANSWER
from agents.english.knowledge_conflict import prki, says_something
from agents.record import FROM_EVIDENCE, OWN_KNOWLEDGE, RECONCILED
from agents.stage import Context, Stage
from agents.turn import Candidate, Turn

ASK = Ask("reconcile", BRIEF_ANSWER)


class Reconcile(Stage):
    """Lets the model decide where parametric and retrieved answer differ (CoRe-MMRAG, section 3.2, step 4, eq. 7); one batched call."""

    fills = ("candidate",)
    doing = "deciding between two answers"
    asks = (ASK,)

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Replace ``candidate``, the retrieved answer, by the reconciled one."""
        disagreeing: list[tuple[Turn, Candidate, Candidate]] = []
        for turn in turns:
            own, retrieved = turn.parametric, turn.candidate
            texts = {"parametric": own.text if own else None, "retrieved": retrieved.text if retrieved else None}
            differ = prki(texts["parametric"], texts["retrieved"], turn.question)
            turn.record(answers={OWN_KNOWLEDGE: texts["parametric"], FROM_EVIDENCE: texts["retrieved"]})
            turn.note(prki=differ)
            if differ and own is not None and retrieved is not None:
                disagreeing.append((turn, own, retrieved))
            elif says_something(texts["parametric"]) and not says_something(texts["retrieved"]):
                turn.candidate = own
        questions = [
            Question(ASK, {**_values(turn, context), "own": own.text, "retrieved": retrieved.text}, (turn,))
            for turn, own, retrieved in disagreeing
        ]
        for (turn, _, retrieved), answer in zip(disagreeing, context.put(questions), strict=True):
            turn.candidate = answer.value or retrieved
            turn.record(answers={RECONCILED: turn.candidate.text})


def _values(turn: Turn, context: Context) -> dict[str, Any]:
    """Collect a prompt's values: the question with the chosen entry.

    If the preset chooses no entry, the evidence takes its place.
    """
    entry = turn.chosen
    others = [("Reference", entry.image)] if entry is not None and entry.image is not None else []
    evidence = turn.shown if entry is None else ()
    return {**turn.values, **context.show(turn.image, others), "entry": entry, "evidence": evidence}
