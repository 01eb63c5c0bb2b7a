from collections.abc import Sequence

from pydantic import Field

from agents.asking.ask import Ask, Question
from agents.asking.readers.answers import ANSWER
from agents.english.knowledge_conflict import says_something
from agents.evidence.passages import Modality, classify_modality, convert_to_record
from agents.methods.modality_fusion import all_agree, select_most_trusted
from agents.record import FROM_EVIDENCE, RECONCILED
from agents.stage import Context, Stage, StageOptions
from agents.turn import Candidate, Evidence, Turn

ALONE, WITHOUT = Ask("answer_with_evidence", ANSWER), Ask("answer_without_evidence", ANSWER)
FUSE = Ask("answer_fusion", ANSWER)


class ModalityAnswers(Stage):
    """Answers from the evidence of each modality, then gives one answer of all (MoqaGPT, as in semantic coherence filtering, section 3.3).

    Refusals are dropped. Where the others agree, the most trusted modality words the answer; where they differ, the model decides in a
    second batched call.
    """

    class Options(StageOptions):
        k: int = Field(5, ge=0, description="chunks shown, of all modalities together")

    options: Options
    fills = ("candidate", "shown")
    doing = "writing an answer from each kind of evidence"
    asks = (ALONE, WITHOUT, FUSE)
    kind = "answers"
    min_seconds, wanted_seconds = 1.0, 3.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``candidate``."""
        modality_questions: list[tuple[Turn, Modality | None, Question[Candidate | None]]] = []
        for turn in turns:
            turn.shown = context.evidence(turn, self.options.k)
            turn.record(evidence=convert_to_record(turn.shown))
            groups: dict[Modality, list[Evidence]] = {}
            for chunk in turn.shown:
                groups.setdefault(classify_modality(chunk), []).append(chunk)
            for modality, chunks in groups.items():
                modality_questions.append(
                    (turn, modality, Question(ALONE, {**turn.values, "evidence": chunks}, (turn,)))
                )
            if not groups:
                modality_questions.append((turn, None, Question(WITHOUT, turn.values, (turn,))))
        candidates_by_turn: dict[int, list[tuple[Modality | None, Candidate]]] = {}
        for (turn, kind, _), answer in zip(
            modality_questions, context.put([question for *_, question in modality_questions]), strict=True
        ):
            if answer.failed:
                turn.error = turn.error or f"modality_answers: {answer.error}"
            elif answer.value is not None:
                candidates_by_turn.setdefault(id(turn), []).append((kind, answer.value))
        differing: list[tuple[Turn, list[tuple[Modality | None, Candidate]]]] = []
        for turn in turns:
            every = candidates_by_turn.get(id(turn), [])
            turn.record(answers={f"{FROM_EVIDENCE}: {kind}": it.text for kind, it in every if kind is not None})
            plausible = [(kind, it) for kind, it in every if says_something(it.text)]
            turn.candidate = select_most_trusted([it for _, it in plausible or every])
            if not all_agree([it.text for _, it in plausible], turn.question):
                differing.append((turn, plausible))
        questions = [Question(FUSE, {**turn.values, "answers": answers}, (turn,)) for turn, answers in differing]
        for (turn, _), answer in zip(differing, context.put(questions), strict=True):
            turn.candidate = answer.value or turn.candidate
            turn.record(answers={RECONCILED: answer.value.text if answer.value else None})
