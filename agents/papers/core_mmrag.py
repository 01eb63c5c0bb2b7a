"""CoRe-MMRAG: "Cross-Source Knowledge Reconciliation for Multimodal RAG", 2025.

The paper from top to bottom. Presets: ``core_mmrag`` (one prompt in four steps), ``core_mmrag_calls`` (a call a step), and its baselines
``core_mmrag_one_stage``, ``core_mmrag_two_stage`` and ``core_mmrag_oracle``. Stages in brackets are those of ``agents/stages``.

3.1 top pictures with their texts: [``image_search``], ``EntriesStage``; PRKI (eq. 1): ``prki`` of ``agents/english``, which other stages
    ask too; VTKI (eq. 2, 4): ``vtki``
3.2 step 1, y_int (eq. 3): ``ParametricAnswer``; step 2, I_tv (eq. 5): ``ChooseEntry``, ``choose_jointly``; step 3, y_ext (eq. 6):
    ``EntryAnswer``; step 4, y* (eq. 7): ``Reconcile``; all of them in one prompt (appendix A.1): ``FourStepsStage``
3.3 training (eq. 8 to 12): ``training/core_data.py``, ``training/core_train.py``
4.3 baselines 1-Stage and Oracle: ``EntriesAnswer``; 2-Stage: steps 2 and 3
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from PIL import Image
from pydantic import Field

from agents.asking.ask import Answer, Ask, Question, ReplyForm
from agents.asking.readers.answers import BRIEF_ANSWER
from agents.english.knowledge_conflict import prki, says_something
from agents.evidence.passages import write_attribute
from agents.evidence.shown import cut_entry
from agents.methods.token_probabilities import summarise_probabilities
from agents.models.base import ChatReply
from agents.record import FROM_EVIDENCE, OWN_KNOWLEDGE, RECONCILED
from agents.search.hits import ImageHit
from agents.stage import Context, Stage, StageOptions
from agents.texts.infobox import facts
from agents.texts.replies import read_label, was_cut
from agents.texts.text import one_line
from agents.turn import Candidate, KnowledgeEntry, Turn

_ENTRIES_WHEN_SHORT = 2

LETTERS = "ABCDEFGHIJKLMNOP"  # names of the entries in prompts, as in the paper (Reference A, B, ...)
MAX_ENTRIES = len(LETTERS)
LABELS = ("own answer", "reference", "reference answer", "final answer")  # labels of the four lines of a reply

_NAMED = re.compile(r"\b(?i:reference|context|entry)\W{1,3}([A-P])\b")
_FIRST = re.compile(  # neither "A lighthouse" nor "A-frame" nor "e.g."
    r"\W{0,4}([A-P])(?=\W*$|[\])\"*:,;]|\.(?!\w)|\s*[-–—]\s|\s*\n| \(| (?:is|shows|matches|fits|because|and|or)\b)",
    re.IGNORECASE,
)
_ANYWHERE = re.compile(r"\b([B-P])\b(?!')")
_BRACKETED = re.compile(r"\[([^\[\]]+)\]")
_STEP = re.compile(r"^\W{0,4}step[ \t]*(\d)[ \t]*[:.)-]*[ \t]*", re.IGNORECASE | re.MULTILINE)


def label_pictures(entries: Sequence[KnowledgeEntry]) -> list[tuple[str, Image.Image]]:
    """Pair each entry's picture with the entry's letter, and skip entries without a picture."""
    return [(letter, entry.image) for letter, entry in zip(LETTERS, entries, strict=False) if entry.image is not None]


@dataclass(frozen=True)
class FourSteps:
    """Results of the steps of the one prompt (appendix A.1); None for a step without one, as behind a cut."""

    parametric: str | None = None  # step 1, the answer from the model's own knowledge (eq. 3)
    entry: int | None = None  # step 2, the place of the most relevant entry, from 0 (eq. 5)
    external: str | None = None  # step 3, the answer from that entry (eq. 6)
    final: str | None = None  # step 4, the given answer (eq. 7)


def entry_letter(text: str, entries: int) -> int | None:
    """Return the index from 0 of the entry that a text names, or None.

    The text names it as "Reference C", by a letter of either case alone at its head, or by a single capital that is no article.
    """
    for pattern in (_NAMED, _FIRST, _ANYWHERE):
        for match in (pattern.match(text[:400]),) if pattern is _FIRST else pattern.finditer(text[:400]):
            index = LETTERS.index(match.group(1).upper()) if match else entries
            if index < entries:
                return index
    return None


def parse_four_steps(reply: str, entries: int) -> FourSteps:
    """Parse the four steps of a reply to ``prompts/four_steps.j2``, by label or else by "Step N".

    A reply with neither is the final answer; in square brackets it is the parametric one, as the paper marks it (figure 5).
    """
    reply = reply.replace("*", "")
    text = _STEP.sub("", reply)
    steps = _by_number(reply)
    parts = [read_label(text, label) for label in LABELS]
    if not steps and not any(parts):
        bare = one_line(reply)
        bracketed = _BRACKETED.fullmatch(bare)
        answer = _read_answer(bare)
        return FourSteps(parametric=answer if bracketed else None, final=answer)
    parametric, reference, external, final = (
        value if value is not None else steps.get(number) for number, value in enumerate(parts, 1)
    )
    return FourSteps(
        _read_answer(parametric),
        entry_letter(reference, entries) if reference else None,
        _read_answer(external),
        _read_answer(final),
    )


def whole_lines(reply: str) -> str:
    """Remove the incomplete last line of a truncated reply."""
    return reply[: reply.rfind("\n") + 1]


def _by_number(reply: str) -> dict[int, str]:
    pieces = _STEP.split(reply)
    return {int(number): text for number, text in zip(pieces[1::2], pieces[2::2], strict=True)}


def _read_answer(text: str | None) -> str | None:
    if text is None:
        return None
    bracketed = _BRACKETED.search(text)
    answer = one_line(bracketed.group(1) if bracketed else text).strip(" \"'")
    return answer or None


def entry_choice(entries: int) -> ReplyForm[int | None]:
    """Define a form of reply that chooses one of ``entries`` lettered entries, by its index from 0."""

    def place(reply: ChatReply) -> int | None:
        return entry_letter(reply.text, entries) if reply.finish_reason != "error" else None

    return ReplyForm("entry", place)


def four_steps(entries: int) -> ReplyForm[FourSteps]:
    """Define the form of a reply with the four steps over ``entries`` entries.

    Only the whole lines of a truncated reply are read.
    """

    def steps(reply: ChatReply) -> FourSteps:
        return parse_four_steps(whole_lines(reply.text) if was_cut(reply) else reply.text, entries)

    return ReplyForm("four steps", steps, lambda value, _: value.final is not None)


def entry_text(hit: ImageHit) -> str:
    """Build the text T of an entry: the attributes of its entities as sentences."""
    attributes = ((entity.name, *fact) for entity in hit.entities for fact in facts(entity.attributes))
    return " ".join(write_attribute(key, name, value) for name, key, value in attributes)


class EntriesStage(Stage):
    """Makes entries of a picture and a text from the hits of image search (CoRe-MMRAG, section 3.1), and reranks their texts.

    Pictures come from the picture cache.
    """

    name = "entries"

    class Options(StageOptions):
        k: int = Field(5, ge=1, le=16, description="entries kept")
        pictures: bool = Field(True, description="show the pictures of entries to the model, where there are any")

    options: Options
    fills = ("entries",)
    doing = "gathering facts about similar pictures"
    model_roles = ("reranker",)
    when_short = f"{_ENTRIES_WHEN_SHORT} entries, nothing fetched"
    picture_notes = frozenset({"entries"})
    min_seconds, wanted_seconds = 0.5, 1.0

    def pictures(self) -> int:
        """Return the maximum number of pictures per prompt, which shows those of all entries."""
        return self.options.k if self.options.pictures else 0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``entries``, best picture first, and note whether picture and text point to different ones (VTKI, eq. 4)."""
        limit = min(self.options.k, _ENTRIES_WHEN_SHORT) if context.short else self.options.k
        fetch = context.fetch and not context.short
        for turn in turns:
            hits = [hit for hit in turn.image_hits if hit.entities][:limit]
            texts = [cut_entry(entry_text(hit), len(hits), context.limits.evidence_tokens) for hit in hits]
            turn.entries = tuple(
                KnowledgeEntry(hit.entities[0].name, text, hit.url, hit.entities[0], visual=hit.score)
                for hit, text in zip(hits, texts, strict=True)
            )
        urls = [entry.url for turn in turns for entry in turn.entries]
        pictures = context.search.pictures(urls, fetch, context.deadline) if self.options.pictures else {}
        pairs = [(turn.question, f"{entry.title}: {entry.text}") for turn in turns for entry in turn.entries]
        scores = iter(context.models.reranker.score(pairs) if pairs else ())
        for turn in turns:
            turn.entries = tuple(
                replace(entry, textual=float(next(scores)), image=pictures.get(entry.url)) for entry in turn.entries
            )
            titles = [entry.title for entry in turn.entries]
            visual, textual = ([entry.visual for entry in turn.entries], [entry.textual for entry in turn.entries])
            by_picture, by_text = find_best(visual), find_best(textual)
            turn.note(
                entries=[
                    {
                        "name": each.title,
                        "score": each.textual,
                        "visual": each.visual,
                        "text": each.text,
                        "image": each.image,
                    }
                    for each in turn.entries
                ],
                pictures=sum(entry.image is not None for entry in turn.entries),
                visual_entry=titles[by_picture] if by_picture is not None else None,
                textual_entry=titles[by_text] if by_text is not None else None,
                vtki=vtki(titles, visual, textual),
            )


def find_best(scores: Sequence[float]) -> int | None:
    """Return the index of the best score, the first of equal ones; None without scores. NaN never wins."""
    best: int | None = None
    for index, score in enumerate(scores):
        if score == score and (best is None or score > scores[best]):
            best = index
    return best


def vtki(titles: Sequence[str], visual: Sequence[float], textual: Sequence[float]) -> bool | None:
    """Return whether visual and textual knowledge are inconsistent (eq. 2 and 4).

    They are if the entry with the most similar picture is not the entry with the most relevant text. Entries are compared by their titles:
    two pictures of one entity do not contradict each other.

    Returns:
        None if fewer than two entries have scores.
    """
    by_picture, by_text = find_best(visual), find_best(textual)
    if len(titles) < 2 or by_picture is None or by_text is None:
        return None
    return titles[by_picture] != titles[by_text]


ANSWER_ALONE = Ask("parametric_answer", BRIEF_ANSWER)


class ParametricAnswer(Stage):
    """Answers without any evidence (CoRe-MMRAG, section 3.2, step 1, eq. 3); one batched call."""

    name = "parametric_answer"
    min_seconds, wanted_seconds = 1.0, 2.0
    fills = ("parametric",)
    doing = "writing an answer without evidence"
    asks = (ANSWER_ALONE,)

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``parametric``."""
        for turn, answer in context.ask_each(ANSWER_ALONE, turns):
            turn.parametric = answer.value
            turn.record(answers={OWN_KNOWLEDGE: turn.parametric.text if turn.parametric else None})


def ask_for_entry(entries: int) -> Ask[int | None]:
    """Return the question which of so many entries it is."""
    return Ask("entry_choice", entry_choice(entries))


class ChooseEntry(Stage):
    """Chooses the entry that picture and text together point to (CoRe-MMRAG, section 3.2, step 2, eq. 5).

    The model sees all entries. If it names none, the sum of both scores decides.
    """

    name = "choose_entry"
    min_seconds, wanted_seconds = 0.5, 1.0
    fills = ("chosen", "entity", "entity_score")
    doing = "choosing the thing in the photo"
    asks = (ask_for_entry(MAX_ENTRIES),)
    picture_notes = frozenset({"chosen"})

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``chosen`` and, from it, ``entity`` and ``entity_score``."""
        concerned = [turn for turn in turns if turn.entries]
        questions = [
            Question(
                ask_for_entry(len(turn.entries)),
                {**turn.values, **context.show(turn.image, label_pictures(turn.entries)), "letters": LETTERS},
                (turn,),
            )
            for turn in concerned
        ]
        for turn, answer in zip(concerned, context.put(questions), strict=True):
            named = index = answer.value
            if named is None:
                index = choose_jointly(
                    [entry.visual for entry in turn.entries], [entry.textual for entry in turn.entries]
                )
            if index is not None:
                turn.choose(index)
            turn.record(entity=turn.entity_name)
            turn.note(chosen=index, by_model=named is not None)


def choose_jointly(visual: Sequence[float], textual: Sequence[float]) -> int | None:
    """Choose the entry with the highest visual + textual score (eq. 5); None without entries.

    It decides if the model names no entry.
    """
    return find_best([sight + text for sight, text in zip(visual, textual, strict=True)])


ANSWER_FROM_ENTRY = Ask("entry_answer", BRIEF_ANSWER)


class EntryAnswer(Stage):
    """Answers from text and picture of the chosen entry (CoRe-MMRAG, section 3.2, step 3, eq. 6); one batched call."""

    name = "entry_answer"
    min_seconds, wanted_seconds = 1.0, 2.0
    fills = ("candidate",)
    doing = "writing an answer"
    asks = (ANSWER_FROM_ENTRY,)
    kind = "answers"

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``candidate``."""

        def values(turn: Turn) -> dict[str, Any]:
            picture = turn.chosen.image if turn.chosen is not None else None
            others = [("Reference", picture)] if picture is not None else []
            return {**turn.values, **context.show(turn.image, others), "entry": turn.chosen}

        _answer(ANSWER_FROM_ENTRY, [turn for turn in turns if turn.chosen], values, context)


def _answer(
    ask: Ask[Candidate | None], turns: Sequence[Turn], values: Callable[[Turn], dict[str, Any]], context: Context
) -> None:
    """Ask for an answer from entries about each turn, in one batched call, and fill ``candidate``."""
    for turn, answer in context.ask_each(ask, turns, values):
        turn.candidate = answer.value
        turn.record(answers={FROM_EVIDENCE: turn.candidate.text if turn.candidate else None})


RECONCILE = Ask("reconcile", BRIEF_ANSWER)


class Reconcile(Stage):
    """Lets the model decide where parametric and retrieved answer differ (CoRe-MMRAG, section 3.2, step 4, eq. 7); one batched call."""

    name = "reconcile"
    fills = ("candidate",)
    doing = "deciding between two answers"
    asks = (RECONCILE,)

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
            Question(
                RECONCILE, {**_reconciling_values(turn, context), "own": own.text, "retrieved": retrieved.text}, (turn,)
            )
            for turn, own, retrieved in disagreeing
        ]
        for (turn, _, retrieved), answer in zip(disagreeing, context.put(questions), strict=True):
            turn.candidate = answer.value or retrieved
            turn.record(answers={RECONCILED: turn.candidate.text})


def _reconciling_values(turn: Turn, context: Context) -> dict[str, Any]:
    """Collect a prompt's values: the question with the chosen entry.

    If the preset chooses no entry, the evidence takes its place.
    """
    entry = turn.chosen
    others = [("Reference", entry.image)] if entry is not None and entry.image is not None else []
    evidence = turn.shown if entry is None else ()
    return {**turn.values, **context.show(turn.image, others), "entry": entry, "evidence": evidence}


def ask_in_four_steps(entries: int) -> Ask[FourSteps]:
    """Return the question with all four steps over so many entries."""
    return Ask("four_steps", four_steps(entries))


class FourStepsStage(Stage):
    """Runs all of CoRe-MMRAG (section 3.2) in one prompt: own answer, choice of an entry, answer from it, choice between both."""

    name = "four_steps"
    min_seconds, wanted_seconds = 1.0, 2.0
    fills = ("parametric", "chosen", "entity", "entity_score", "candidate")
    doing = "writing an answer"
    asks = (ask_in_four_steps(MAX_ENTRIES),)
    kind = "answers"

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``parametric``, ``chosen`` (with ``entity``) and ``candidate``; a reply cut before its end gives its latest answer."""
        questions = [
            Question(
                ask_in_four_steps(len(turn.entries)),
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


ANSWER_FROM_ALL = Ask("entries_answer", BRIEF_ANSWER)


class EntriesAnswer(Stage):
    """Answers from all entries at once (CoRe-MMRAG, section 4.3: the baselines 1-Stage and Oracle); one batched call."""

    name = "entries_answer"
    min_seconds, wanted_seconds = 1.0, 2.0
    fills = ("candidate",)
    doing = "writing an answer"
    asks = (ANSWER_FROM_ALL,)
    kind = "answers"

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``candidate`` of the turns that have entries."""

        def values(turn: Turn) -> dict[str, Any]:
            return {**turn.values, **context.show(turn.image, label_pictures(turn.entries)), "letters": LETTERS}

        _answer(ANSWER_FROM_ALL, [turn for turn in turns if turn.entries], values, context)
