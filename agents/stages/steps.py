from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from agents.asking.ask import Answer, Ask, Question
from agents.asking.readers.answers import STEP_ANSWER
from agents.asking.readers.lines import PLAN
from agents.english.computation import ComputationError
from agents.english.printed_text import attach_labels
from agents.english.step_plans import AskStep, Plan, complete_plan
from agents.english.step_results import conclude
from agents.english.step_rules import mentions_printed_text, needs_steps, plan_calculation
from agents.evidence.chunks import deduplicate
from agents.evidence.passages import convert_to_record
from agents.evidence.shown import FACT_CHUNKS
from agents.record import SignalKind
from agents.stage import Context, Stage, StageOptions
from agents.texts.injection import neutral
from agents.texts.orders import rests_on_orders
from agents.texts.refusals import refuses
from agents.turn import IDK, Candidate, Evidence, Turn, select_with_image

PLANNING = Ask("step_plan", PLAN)
ASKING = Ask("step_answer", STEP_ANSWER)
TAKEN = SignalKind("steps.taken", "steps that the answer took; 0 if it was not answered in steps")

_LEVEL_SECONDS = 2.0  # for a search and a call; with less the question is answered in one prompt
_MAX_FACT = 160  # characters of an answer in the next step's question
_MAX_THINGS = 4  # of the photo, named to the model that plans: as many as `select_entity.k` by default
_PRINTED = "Text in the photo"  # title of it as evidence


@dataclass(frozen=True)
class PrintedText:
    """Text in a photo: its lines, each figure behind its label, and the OCR's lowest confidence in a line, 0 to 1."""

    lines: tuple[str, ...] = ()
    sure: float | None = None  # None without lines

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """Return the text as one chunk of evidence, or none if there is no text."""
        return (Evidence("\n".join(self.lines), "photo", _PRINTED),) if self.lines else ()


@dataclass
class Run:
    """Plan in progress: the answers of its steps and their evidence, by the index of the step."""

    turn: Turn
    plan: Plan
    printed: PrintedText = PrintedText()
    answers: dict[int, Answer[Candidate | None]] = field(default_factory=dict)
    evidence: dict[int, tuple[Evidence, ...]] = field(default_factory=dict)
    alternatives: bool = False  # whether its steps ask the same in several ways, so that the first answer counts
    is_printed: bool = False  # whether it works out a calculation printed in the photo
    led: bool = False  # whether an answer is only in an order found in the evidence

    @property
    def is_stuck(self) -> bool:
        """True if a step (of alternatives, every step) is refused, or if an answer follows an injected order."""
        assertions = [_asserts(answer) for answer in self.answers.values()]
        return self.led or (bool(assertions) and not any(assertions) if self.alternatives else not all(assertions))

    @property
    def is_broken(self) -> bool:
        """True if the call for a step failed, or was aborted by the deadline before it said anything whole."""
        answers = self.answers.values()
        return any(each.value is None and (each.failed or each.reply.finish_reason == "abort") for each in answers)

    def settle(self) -> None:
        """Keep the first answered alternative, if the steps are alternatives."""
        answered = (place for place, answer in sorted(self.answers.items()) if _asserts(answer))
        place = next(answered, None) if self.alternatives and not self.led else None
        if place is not None:
            self.plan = Plan((self.plan.steps[place],))
            self.answers, self.evidence = {0: self.answers[place]}, {0: self.evidence[place]}

    @property
    def texts(self) -> list[str]:
        """Answer of each step; "" for a step that computes, or was not asked yet."""
        answers = (self.answers.get(place) for place in range(len(self.plan.steps)))
        return [
            answer.value.text[:_MAX_FACT] if answer is not None and answer.value is not None else ""
            for answer in answers
        ]


def _asserts(answer: Answer[Candidate | None]) -> bool:
    return answer.value is not None and not refuses(answer.value.text)


class Steps(Stage):
    """Plans questions of several steps and answers them step by step: the model answers facts, code computes sums and comparisons.

    The model writes the plan in typed steps, unless the attributes of the entity name the thing in between. A calculation that is
    printed in the photo is worked out without a model. Independent steps are searched for and asked together, for all turns of the batch.
    """

    options: StageOptions
    fills = ("candidate", "shown")
    doing = "answering step by step, where it takes steps"
    asks = (PLANNING, ASKING)
    signals = (TAKEN,)
    kind = "answers"
    when_short = "a printed calculation is worked out, all else answered in one prompt"
    wanted_seconds = 2.5  # a plan; with less it asks no model, which takes no time
    picture_notes = frozenset({"text"})
    model_roles = ("text_reader",)

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``candidate`` and ``shown`` of the turns whose question takes steps and has a plan that can be used."""
        for turn in turns:
            turn.record(signals=TAKEN.entry(0))
        runs = self._plan_turns(turns, context)
        for depth in range(max((len(run.plan.levels()) for run in runs), default=0)):
            self._level([run for run in runs if depth < len(run.plan.levels()) and not run.is_stuck], depth, context)
        for run in runs:
            self._conclude(run)

    def _plan_turns(self, turns: Sequence[Turn], context: Context) -> list[Run]:
        runs, unsure = [], []
        for turn, printed in zip(turns, self._read_printed_text(turns, context), strict=True):
            searched = turn.route != "direct" and turn.tools.text and not context.short
            plan = plan_calculation(printed.lines)
            if plan is not None:
                turn.note(plan=str(plan), used=True)
                runs.append(Run(turn, plan, printed, is_printed=True))
            elif turn.hops and searched:
                runs.append(Run(turn, Plan(tuple(map(AskStep, turn.hops))), printed, alternatives=True))
            elif searched and needs_steps(turn.question):
                unsure.append((turn, printed))
        return runs + self._write_plans(unsure, context)

    def _write_plans(self, unsure: Sequence[tuple[Turn, PrintedText]], context: Context) -> list[Run]:
        """Return the plans that the model writes, if they can be used."""
        runs = []
        questions = [
            Question(
                PLANNING,
                {"question": turn.question, "things": list_things(turn, _MAX_THINGS), "text": printed.lines},
                (turn,),
            )
            for turn, printed in unsure
        ]
        for (turn, printed), answer in zip(unsure, context.put(questions), strict=True):
            plan = complete_plan(answer.value, turn.question, _names(turn), printed.lines)
            turn.note(plan=str(plan or answer.value), used=plan is not None)
            if plan is not None:
                runs.append(Run(turn, plan, printed))
        return runs

    def _read_printed_text(self, turns: Sequence[Turn], context: Context) -> list[PrintedText]:
        """Return the text in the photo of each turn whose question may be about it, from one call of the OCR."""
        turn_images = [
            (turn, image) for turn, image in select_with_image(turns) if mentions_printed_text(turn.question)
        ]
        read = context.models.text_reader.read([image for _, image in turn_images]) if turn_images else []
        texts = [
            PrintedText(tuple(attach_labels(lines)), min((line.score for line in lines), default=None))
            for lines in read
        ]
        printed_by_turn: dict[int, PrintedText] = {}
        for (turn, _), printed in zip(turn_images, texts, strict=True):
            if context.guarded:  # in one piece: an order may go over several lines
                plain = neutral("\n".join(printed.lines), citations=False)
                printed = PrintedText(tuple(line for line in plain.split("\n") if line.strip()), printed.sure)
            printed_by_turn[id(turn)] = printed
            turn.note(text=list(printed.lines) or None)
        return [printed_by_turn.get(id(turn), PrintedText()) for turn in turns]

    def _level(self, runs: Sequence[Run], depth: int, context: Context) -> None:
        """Gather evidence for the steps of one level of all turns, and ask them, in one call each."""
        step_parts = [
            (run, place, step.about(run.texts))
            for run in runs
            for place in run.plan.levels()[depth]
            if isinstance(step := run.plan.steps[place], AskStep)
        ]
        if not step_parts or not context.deadline.allows(_LEVEL_SECONDS):
            return
        parts = context.search_facts([(run.turn, question) for run, _, question in step_parts])
        questions = []
        for (run, place, _), part in zip(step_parts, parts, strict=True):
            points_at_photo = run.turn.needs_image and not run.plan.steps[place].needs and not run.printed.lines
            image = run.turn.image if points_at_photo else None
            photo_chunks = run.printed.evidence if image is None else ()
            run.evidence[place] = chunks = context.evidence(part, FACT_CHUNKS, photo_chunks)
            values = {"question": part.question, "evidence": chunks, "image": image}
            questions.append(Question(ASKING, values, (run.turn,)))
        for (run, place, question), answer in zip(step_parts, context.put(questions), strict=True):
            run.answers[place] = answer
            if context.guarded and answer.value is not None:
                shown_to_it = ((chunk.title, chunk.text) for chunk in run.evidence[place])
                run.led |= rests_on_orders(answer.value.text, question, shown_to_it)

    def _conclude(self, run: Run) -> None:
        """Give the turn the answer of its last step, as sure as its weakest step; "I don't know" if a step is refused.

        The turn gets no candidate if there was no time for all steps, or no reply to one: the next stage answers in one prompt.
        """
        run.settle()
        turn, plan, texts = run.turn, run.plan, run.texts
        candidates = [answer.value for answer in run.answers.values() if answer.value is not None]
        if (run.is_broken and not run.led) or (not run.is_stuck and len(run.answers) < len(plan.asks)):
            return
        weakest = min(candidates, key=lambda one: one.confidence or 0.0, default=Candidate(IDK, run.printed.sure))
        doubts = [one.idk for one in candidates if one.idk is not None]
        text = IDK
        if not run.is_stuck:
            try:
                text = conclude(turn.question, plan, texts, _names(turn))
            except ComputationError as error:
                turn.note(computation=str(error))
                if not plan.asks:
                    return  # the text is no sum; the next stage may see more in it
        turn.candidate = Candidate(
            text,
            weakest.confidence,
            weakest.logprobs,
            max(doubts, default=None),
            computed=run.is_printed,
            stepwise=True,
        )
        facts = [
            Evidence(f"{step.about(texts)} {texts[place]}", "step", f"step {place + 1}")
            for place, step in enumerate(plan.steps)
            if isinstance(step, AskStep) and texts[place]
        ]
        top_chunks = [chunk for chunks in run.evidence.values() for chunk in chunks[:2] if chunk.source != "photo"]
        turn.shown = (*facts, *run.printed.evidence, *deduplicate(top_chunks))
        turn.record(
            signals=TAKEN.entry(len(plan.steps)),
            queries=tuple(step.about(texts) for step in plan.asks),
            evidence=convert_to_record(turn.shown),
            answers={f"step {place + 1}": texts[place] for place in range(len(texts)) if texts[place]},
        )


def _names(turn: Turn) -> list[str]:
    """Names of the things in the photo, the surest first."""
    return [entity.name for entity in turn.shown_entities()]


def list_things(turn: Turn, limit: int) -> list[str]:
    """Return names of the things in the photo, each with its place if there are several and places are known."""
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
            box = max(views, key=lambda entry: entry[0])[1]
            centres[entity.name] = (box.left + box.right) / 2
    order = sorted(centres, key=lambda name: centres[name])
    words = {2: ("left", "right"), 3: ("left", "middle", "right")}.get(len(order), ())
    place = dict(zip(order, words, strict=True)) if words and len(order) == len(entities) else {}
    return [f"{each.name} ({place[each.name]})" if each.name in place else each.name for each in entities]
