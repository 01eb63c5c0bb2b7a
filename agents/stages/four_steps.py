from collections.abc import Sequence

from agents.asking.ask import Answer, Ask, Question
from agents.asking.readers.entry_replies import LETTERS, MAX_ENTRIES, FourSteps, four_steps, label_pictures
from agents.english.knowledge_conflict import prki
from agents.methods.token_probabilities import summarise_probabilities
from agents.record import FROM_EVIDENCE, OWN_KNOWLEDGE, RECONCILED
from agents.stage import Context, Stage
from agents.turn import Candidate, Turn


def build_ask(entries: int) -> Ask[FourSteps]:
    """Return the question with all four steps over so many entries."""
    return Ask("four_steps", four_steps(entries))


class FourStepsStage(Stage):
    """Runs all of CoRe-MMRAG (section 3.2) in one prompt: own answer, choice of an entry, answer from it, choice between both."""

    min_seconds, wanted_seconds = 1.0, 2.0
    fills = ("parametric", "chosen", "entity", "entity_score", "candidate")
    doing = "writing an answer"
    asks = (build_ask(MAX_ENTRIES),)
    kind = "answers"

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``parametric``, ``chosen`` (with ``entity``) and ``candidate``; a reply cut before its end gives its latest answer."""
        questions = [
            Question(
                build_ask(len(turn.entries)),
                {**turn.values, **context.show(turn.image, label_pictures(turn.entries)), "letters": LETTERS},
                (turn,),
            )
            for turn in turns
        ]
        for turn, answer in zip(turns, context.put(questions), strict=True):
            if answer.failed:
                turn.error = turn.error or f"four_steps: {answer.error}"
            else:
                self._take(turn, answer)

    @staticmethod
    def _take(turn: Turn, replied: Answer[FourSteps]) -> None:
        steps, reply = replied.value, replied.reply
        statistics = summarise_probabilities(reply.logprobs)
        confidence = statistics.mean if statistics else None
        if steps.parametric:
            turn.parametric = Candidate(steps.parametric, confidence, reply.logprobs)
        if steps.entry is not None:
            turn.choose(steps.entry)
        answer = steps.final or steps.external or steps.parametric
        if answer:
            turn.candidate = Candidate(answer, confidence, reply.logprobs)
        turn.record(
            entity=turn.chosen.title if turn.chosen else None,
            answers={OWN_KNOWLEDGE: steps.parametric, FROM_EVIDENCE: steps.external, RECONCILED: steps.final},
        )
        turn.note(prki=prki(steps.parametric, steps.external, turn.question))
