from collections.abc import Sequence

from agents.stage import Context, Stage
from agents.turn import Turn


class DomainRouter(Stage):
    """Classifies question and picture into a domain (QA-Dragon, section 3.1.1), by a trained head or zero-shot by ``prompts/domains/``."""

    min_seconds, wanted_seconds = 0.3, 0.6
    fills = ("domain",)
    doing = "sorting the question"
    model_roles = ("domain_classifier",)

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``domain`` of the turns whose domain the evaluator does not say."""
        turns = [turn for turn in turns if turn.domain is None]
        if not turns:
            return
        scored = context.models.domain_classifier.classify(
            [turn.image for turn in turns], [turn.question for turn in turns]
        )
        for turn, scores in zip(turns, scored, strict=True):
            best = sorted(scores, key=lambda label: -label.probability)
            turn.domain = best[0].name if best else None
            turn.note(domain=turn.domain, domains={label.name: round(label.probability, 3) for label in best[:3]})
