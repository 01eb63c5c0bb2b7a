"""QA-Dragon: "Query-Aware Dynamic RAG System for Knowledge-Intensive Visual Question Answering", KDD Cup 2025, arXiv 2508.05197.

The paper from top to bottom; preset ``qa_dragon``. Most of its stages are those of ``agents/stages``, in brackets: ``best`` runs them too.

3.1.1 domain router: ``DomainRouter``
3.1.2 draft with domain chain of thought (appendix A): ``DraftStage``
3.2   search router (table 1): [``route``], by the features and rules of ``agents/methods/routing.py``
3.3   tool router (appendix A): [``tools``]
3.4   objects (3.4.1): [``objects``]; boxes (3.4.2): [``ground``]; crops searched for (3.4.3): [``image_search``]; entity (3.4.4):
      [``select_entity``]
3.5   splitting, enhancement (3.5.1), fusion search (3.5.2): [``queries``, ``web_search``]
3.6   chunks (3.6.1, eq. 1): [``evidence``]; coarse, fine and cumulative score (3.6.2, eq. 2 and 3) and order (3.6.3, eq. 4):
      [``two_stage_rerank``]
3.7   answer (3.7.1): [``answer``]; both verifiers (3.7.2): [``verify``]; what they decide: ``DualVerification``, a rule of [``finalise``]
"""

from collections.abc import Sequence
from typing import Any

from agents.asking.ask import Ask
from agents.asking.readers.drafts import draft_form
from agents.decision.rule import Rule, RuleContext
from agents.decision.witnesses import VerifierOptions, verifiers_decide
from agents.methods.domains import load_domains
from agents.record import DRAFT
from agents.stage import Context, Stage
from agents.turn import Draft, Turn


class DomainRouter(Stage):
    """Classifies question and picture into a domain (QA-Dragon, section 3.1.1), by a trained head or zero-shot by ``prompts/domains/``."""

    name = "domain"
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


_FALLBACK_DOMAIN = "other"
_EXAMPLES = 2  # worked examples of the domain shown: "a small number" (QA-Dragon, section 3.1.2)
_MAX_STEPS = 5  # reasoning steps (appendix A: at most 5)
_STEPS_WHEN_SHORT = 2

ASK = Ask("draft", draft_form(_MAX_STEPS))


class DraftStage(Stage):
    """Drafts a provisional answer by chain of thought with worked examples of the domain (QA-Dragon, section 3.1.2); one batched call."""

    name = "draft"
    fills = ("draft",)
    doing = "drafting an answer"
    when_short = f"no examples, {_STEPS_WHEN_SHORT} steps"
    asks = (ASK,)
    min_seconds, wanted_seconds = 2.0, 4.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``draft``."""
        domains = load_domains()
        limits = {
            "max_examples": 0 if context.short else _EXAMPLES,
            "max_steps": _STEPS_WHEN_SHORT if context.short else _MAX_STEPS,
        }

        def values(turn: Turn) -> dict[str, Any]:
            return {**turn.values, **limits, "domain": domains.get(turn.domain or "", domains[_FALLBACK_DOMAIN])}

        for turn, answer in context.ask_each(ASK, turns, values):
            if not answer.failed:
                turn.draft = answer.value
            draft = turn.draft or Draft((), None, "")
            turn.record(answers={DRAFT: draft.answer or None})
            turn.note(steps=list(draft.steps), object=draft.object_name)


class DualVerification(Rule):
    """Each verifier that the preset names has to approve (QA-Dragon, section 3.7.2: dual verification)."""

    Options = VerifierOptions
    options: VerifierOptions

    def reason(self, turn: Turn, context: RuleContext) -> str | None:
        """Withhold an answer that a verifier does not approve. Missing token probabilities do not count if the model is asked too."""
        names = self.options.verified_by
        if names == "witnesses" or not verifiers_decide(turn, context):
            return None
        for verifier in names:
            verdict = getattr(turn.verification, verifier)
            unknown = verdict is None and verifier == "white_box" and "model" in names
            if not verdict and not unknown:
                return f"the {verifier.replace('_', '-')} verifier does not approve"
        return None
