from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from pydantic import Field

from agents.asking.ask import Answer, Ask, Question
from agents.asking.readers.answers import BRIEF_ANSWER
from agents.asking.readers.plans import PLAN
from agents.asking.record import Signal
from agents.methods.bridging import goes_through
from agents.methods.computation import Bound, ComputationError, Quantity, arithmetic, ordered
from agents.methods.question_kinds import about_several, asks_yes_or_no
from agents.methods.ranking import ToScore, scores_of
from agents.methods.step_plans import MAX_STEPS, AskStep, ComputeStep, Plan, bare_name, reference, usable
from agents.stage import Context, Stage, StageOptions
from agents.texts.evidence_chunks import ChunkOptions, attribute_chunks, cutter, each_once, entities_of, page_chunks
from agents.texts.evidence_text import best_first, evidence_found, within_tokens
from agents.texts.orders import rests_on_orders
from agents.texts.refusals import refuses
from agents.turn import IDK, Candidate, Evidence, Turn

PLANNING = Ask("step_plan", PLAN)
ASKING = Ask("step_answer", BRIEF_ANSWER)

_BOUNDED = re.compile(r"\b(?:at most|up to|maximum|at the very least|at least)\b", re.IGNORECASE)
_BY_HOW_MUCH = re.compile(r"\bby how (?:much|many)\b", re.IGNORECASE)
_MAX_FACT = 160  # characters of an answer that stands in the next step's question
_WHOLE = re.compile(r"\bhow many\b", re.IGNORECASE)


@dataclass
class Run:
    """A plan under way: answers of its steps by place from 0, and what they were answered from."""

    turn: Turn
    plan: Plan
    answers: dict[int, Answer[Candidate | None]] = field(default_factory=dict)
    evidence: dict[int, tuple[Evidence, ...]] = field(default_factory=dict)
    led: bool = False  # whether an answer stands only in an order found in the evidence

    @property
    def stuck(self) -> bool:
        """Whether a step has no answer that asserts anything, or one that follows an order."""
        return self.led or any(answer.value is None or refuses(answer.value.text) for answer in self.answers.values())

    @property
    def texts(self) -> list[str]:
        """What was answered, by step; empty for one that computes or was not asked yet."""
        found = (self.answers.get(place) for place in range(len(self.plan.steps)))
        return [
            answer.value.text[:_MAX_FACT] if answer is not None and answer.value is not None else "" for answer in found
        ]


class Steps(Stage):
    """A question of several steps is planned and answered step by step: facts are asked, sums and comparisons are computed by code.

    The model writes the plan in typed steps, rules write it where the thing that a question goes through stands among the attributes. Steps
    that do not need each other are searched for and asked together, for all turns of the batch.
    """

    class Options(ChunkOptions, StageOptions):
        k: int = Field(8, ge=1, description="pages searched for a step")
        evidence: int = Field(6, ge=1, description="chunks shown to a step")
        several: int = Field(4, ge=1, description="things of the photo named to the model that plans")

    options: Options
    fills = ("candidate", "shown")
    doing = "answering step by step, where it takes steps"
    asked = (PLANNING, ASKING)
    model_roles = ("fine_reranker",)
    kind = "answers"
    when_short = "nothing: the next stage answers in one prompt"
    min_seconds, wanted_seconds = 4.0, 6.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``candidate`` and ``shown`` of the turns whose question takes steps and has a plan that can be used."""
        if context.short:
            return
        for turn in turns:
            turn.found(signals={"steps.taken": Signal(0.0)})
        runs = self._planned([turn for turn in turns if turn.route != "direct" and turn.tools.text], context)
        for depth in range(max((len(run.plan.levels()) for run in runs), default=0)):
            self._level([run for run in runs if depth < len(run.plan.levels()) and not run.stuck], depth, context)
        for run in runs:
            self._conclude(run)

    def _planned(self, turns: Sequence[Turn], context: Context) -> list[Run]:
        runs = [Run(turn, Plan(tuple(map(AskStep, turn.hops[:1])))) for turn in turns if turn.hops]
        unsure = [turn for turn in turns if not turn.hops and takes_steps(turn.question)]
        values = [{"question": turn.question, "things": things_of(turn, self.options.several)} for turn in unsure]
        questions = [Question(PLANNING, shown, (turn,)) for turn, shown in zip(unsure, values, strict=True)]
        for turn, answer in zip(unsure, context.put(questions), strict=True):
            plan = usable(answer.value, turn.question, [entity.name for entity in turn.shown_entities()])
            turn.note(plan=str(plan or answer.value), used=plan is not None)
            if plan is not None:
                runs.append(Run(turn, plan))
        return runs

    def _level(self, runs: Sequence[Run], depth: int, context: Context) -> None:
        """Search for and ask the steps of one level, of all turns at once."""
        asked = [
            (run, place, step.about(run.texts))
            for run in runs
            for place in run.plan.levels()[depth]
            if isinstance(step := run.plan.steps[place], AskStep)
        ]
        if not asked or not context.deadline.allows(self.min_seconds):
            return
        provided = [run.turn.provided for run, _, _ in asked]
        results = context.search.search_web(
            [query for _, _, query in asked], self.options.k, provided, context.deadline
        )
        cut = cutter(self.options)
        pairs: list[list[ToScore]] = []  # of each step
        for (run, _, query), found in zip(asked, results, strict=True):
            named = [it for it in entities_of(run.turn, MAX_STEPS) if bare_name(it[0].name).lower() in query.lower()]
            known = [chunk for entity, hit in named for chunk in attribute_chunks(entity, hit, self.options, cut)]
            chunks = each_once([*known, *(chunk for hit in found.hits for chunk in page_chunks(hit, cut))])
            pairs.append([ToScore(run.turn, query, chunk) for chunk in chunks])
        together = [pair for own in pairs for pair in own]
        scores = iter(scores_of(context.models.fine_reranker)(together) if together else ())
        questions = []
        for (run, place, query), own in zip(asked, pairs, strict=True):
            best = best_first(pair.chunk.scored(float(next(scores))) for pair in own)
            shown = within_tokens(tuple(best[: self.options.evidence]), context.limits.evidence_tokens)
            run.evidence[place] = shown
            image = run.turn.image if run.turn.needs_image and not run.plan.steps[place].needs else None
            questions.append(Question(ASKING, {"question": query, "evidence": shown, "image": image}, (run.turn,)))
        for (run, place, query), answer in zip(asked, context.put(questions), strict=True):
            run.answers[place] = answer
            if context.guarded and answer.value is not None:
                shown_to_it = ((chunk.title, chunk.text) for chunk in run.evidence[place])
                run.led |= rests_on_orders(answer.value.text, query, shown_to_it)

    def _conclude(self, run: Run) -> None:
        """Give the turn the answer of its last step, as sure as its weakest one; "I don't know" where a step has none."""
        turn, plan, texts = run.turn, run.plan, run.texts
        things = [entity.name for entity in turn.shown_entities()]
        said = [answer.value for answer in run.answers.values() if answer.value is not None]
        if not run.stuck and len(run.answers) < len(plan.asks):
            return  # there was no time for all of them: the next stage answers in one prompt
        weakest = min(said, key=lambda one: one.confidence or 0.0, default=Candidate(IDK, None))
        doubts = [one.idk for one in said if one.idk is not None]
        text = IDK
        if not run.stuck:
            try:
                text = conclusion(turn.question, plan, texts, things)
            except ComputationError as error:
                turn.note(computation=str(error))
        turn.candidate = Candidate(text, weakest.confidence, weakest.logprobs, max(doubts, default=None))
        facts = [
            Evidence(f"{step.about(texts)} {texts[place]}", "step", f"step {place + 1}")
            for place, step in enumerate(plan.steps)
            if isinstance(step, AskStep) and texts[place]
        ]
        turn.shown = (*facts, *each_once([chunk for chunks in run.evidence.values() for chunk in chunks[:2]]))
        turn.found(
            signals={"steps.taken": Signal(float(len(plan.steps)))},
            queries=tuple(step.about(texts) for step in plan.asks),
            evidence=evidence_found(turn.shown),
            answers={f"step {place + 1}": texts[place] for place in range(len(texts)) if texts[place]},
        )


def takes_steps(question: str) -> bool:
    """Whether the words of a question say that one fact of one thing cannot answer it."""
    return about_several(question) or goes_through(question) or bool(_BOUNDED.search(question))


def things_of(turn: Turn, limit: int) -> list[str]:
    """Names of what the photo shows, each with its place where there are several and places are known."""
    entities = turn.shown_entities()[:limit]
    if not entities:
        return list(turn.names_shown())
    centres = {}
    for entity in entities:
        views = [
            (hit.score, view.region.box)
            for view in turn.views
            if view.region is not None
            for hit in view.hits
            if any(other.name == entity.name for other in hit.entities)
        ]
        if views:
            box = max(views, key=lambda found: found[0])[1]
            centres[entity.name] = (box.left + box.right) / 2
    order = sorted(centres, key=lambda name: centres[name])
    words = {2: ("left", "right"), 3: ("left", "middle", "right")}.get(len(order), ())
    place = dict(zip(order, words, strict=True)) if words and len(order) == len(entities) else {}
    return [f"{each.name} ({place[each.name]})" if each.name in place else each.name for each in entities]


def conclusion(question: str, plan: Plan, texts: Sequence[str], things: Sequence[str]) -> str:
    """The answer in words, from the answers of the steps; ComputationError where they cannot be computed with."""
    last = plan.steps[-1]
    if isinstance(last, AskStep):
        return texts[len(plan.steps) - 1]
    values: dict[int, str] = dict(enumerate(texts))
    for place, step in enumerate(plan.steps):
        if isinstance(step, ComputeStep):
            values[place] = _computed(question, plan, step, values, things)
    return values[len(plan.steps) - 1]


def _computed(question: str, plan: Plan, step: ComputeStep, values: dict[int, str], things: Sequence[str]) -> str:
    facts = [each if (number := reference(each)) is None else values[number - 1] for each in step.operands]
    if step.operation in ("sum", "difference", "product", "ratio"):
        found = arithmetic(step.operation, facts, _bound(question))
        if step.operation == "ratio" and _WHOLE.search(question):
            found = Quantity(float(-(-found.value // 1)))  # as many as are needed are whole
        return str(found)
    best, *rest = ordered(step.operation, facts)
    name = _thing(plan, step.operands[best], things)
    said = f"{'Yes' if best == 0 else 'No'}: {name}" if asks_yes_or_no(question) else name
    if _BY_HOW_MUCH.search(question):
        said += f", by {arithmetic('difference', [facts[best], facts[rest[0]]])}"
    return said


def _thing(plan: Plan, operand: str, things: Sequence[str]) -> str:
    """What a fact is about: the thing of the photo that its step names, else the step's own words."""
    if (number := reference(operand)) is None:
        return operand
    step = plan.steps[number - 1]
    asked = step.question if isinstance(step, AskStep) else operand
    named = (name for name in map(bare_name, things) if name.lower() in asked.lower())
    return max(named, key=len, default=asked.rstrip("?"))


def _bound(question: str) -> Bound:
    return "high" if _BOUNDED.search(question) else "middle"
