"""Questions made for training, from pages that belong to no question: with evidence that answers them, and with evidence that does not.

    python -m training.made_questions --dataset .cache/datasets --out data/made

The pages are the mini CRAG-MM's background summaries that no index of its usual size holds. A rule makes a question of a sentence
(``question_rules.toml``); with --by-model the profile's chat model writes more, which are kept where its own answer from the page agrees.
Each is asked in the prompts that the preset serves, among chunks of other pages. A share is asked again with every chunk taken out that
holds the answer: the reply to be learned is "I don't know". OUT is a folder like those of ``training.collect``, for ``training.sft``.

Whatever names an entity of the mini set, of either split, or asks in the words of a question of public_test, is left out and counted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field
from sklearn.feature_extraction.text import TfidfVectorizer

from agents.asking.ask import Ask, Question, ReplyForm, put
from agents.asking.prompts import Prompt, PromptLibrary
from agents.asking.readers.answers import ANSWER, STEP_ANSWER
from agents.base.command_options import Flag
from agents.base.revisions import split_revision
from agents.evidence.chunks import ChunkOptions, cutter
from agents.evidence.passages import within_tokens
from agents.models.base import ChatReply
from agents.models.reply_cache import ReplyStore
from agents.settings.run_config import RunConfig
from agents.stages.answer import Answer
from agents.texts.refusals import refuses
from agents.texts.replies import labelled
from agents.turn import IDK, Evidence
from evaluation.judge.judging import Judge, choose_judge, judge_turns
from evaluation.records import DEFAULT_REVISION, REPLIES, AnsweredTurn
from mini_crag_mm.content_models import load_content
from mini_crag_mm.index_contents import BACKGROUND, sample_pages
from mini_crag_mm.loader import SET, WebPage
from mini_crag_mm.wikipedia import read_background_pages
from training.chat_examples import Example, TrainingDataError, messages_of, share_of
from training.collect import answer_in, describe, holds_answer, write_collection
from training.command_line import JudgedOptions, run_command, write_about
from training.public_test import TestContent, read_test_content
from training.question_rules import MadeQuestion, QuestionRules, spread

WRITTEN = "written by the model"
"""The kind of a question that the model wrote."""

PROMPT = Path(__file__).parent / "prompts" / "question_of_page.j2"

_WORDS = re.compile(r"\w+")


@dataclass(frozen=True)
class Asked:
    """A question, the page that it was made of, and the chunks of that page."""

    page: WebPage
    made: MadeQuestion
    chunks: tuple[Evidence, ...]

    @property
    def session(self) -> str:
        """Its page's: held-out sides part pages, not questions."""
        return f"made-{self.page['page_url']}"


class Claimed:
    """What belongs to the question sets: names of all entities of the mini set."""

    def __init__(self, names: Iterable[str]) -> None:
        words = sorted({" ".join(_WORDS.findall(name.lower())) for name in names}, key=len, reverse=True)
        self._names = re.compile(rf"\b(?:{'|'.join(map(re.escape, words))})(?:e?s)?\b") if words else None

    @classmethod
    def read(cls) -> Claimed:
        """Entities of both splits, with the others that their photographs show."""
        entities = load_content(SET.content).entities.values()
        return cls([name for entity in entities for name in (entity.name, *(other.name for other in entity.also))])

    def named_in(self, text: str) -> bool:
        """Whether a text names one of them, in the singular or the plural."""
        return self._names is not None and self._names.search(" ".join(_WORDS.findall(text.lower()))) is not None


def training_pages() -> list[WebPage]:
    """The background summaries that no index of the usual size holds, in the order of a hash."""
    return sample_pages(read_background_pages(), -1)[BACKGROUND:]


class Corpus:
    """The chunks of all pages, cut as the agent cuts them, and which of them are most like a question by their words (TF-IDF)."""

    def __init__(self, pages: Sequence[WebPage], options: ChunkOptions) -> None:
        cut = cutter(options)
        self.chunks = [
            Evidence(text, "web", page["page_name"], page["page_url"])
            for page in pages
            for text in cut(page["page_snippet"])
        ]
        self._by_page: dict[str, list[Evidence]] = {}
        for chunk in self.chunks:
            self._by_page.setdefault(chunk.url, []).append(chunk)

    @cached_property
    def _vectors(self) -> tuple[Any, Any]:
        words: Any = TfidfVectorizer(stop_words="english", sublinear_tf=True)
        return words, words.fit_transform([f"{chunk.title}: {chunk.text}" for chunk in self.chunks])

    def of(self, page: WebPage) -> tuple[Evidence, ...]:
        """The chunks of a page."""
        return tuple(self._by_page.get(page["page_url"], ()))

    def nearest(self, question: str, limit: int) -> list[Evidence]:
        """The chunks most like a question, best first, each with its score."""
        words, vectors = self._vectors
        scores = (vectors @ words.transform([question]).T).toarray().ravel()
        order = np.argsort(-scores, kind="stable")[:limit]
        return [self.chunks[place].scored(float(scores[place])) for place in order]


@dataclass(frozen=True)
class Shower:
    """Puts questions as the preset serves them: its prompts, so many chunks, within its budget of tokens."""

    corpus: Corpus
    prompts: PromptLibrary
    evidence: int
    tokens: int | None
    about: str  # what a photo's question is asked by: the preset's prompt for answers with evidence

    def shown(self, asked: Asked, *, answered: bool) -> tuple[Evidence, ...] | None:
        """The evidence of a question, best first: with what answers it, or without. None where the answer does not fit, or none is left."""

        def held(chunk: Evidence) -> bool:
            return holds_answer(chunk.text, asked.made.question, asked.made.truth, (asked.made.answer,))

        named = f"{asked.page['page_name']} {asked.made.question}"
        found = [chunk for chunk in self.corpus.nearest(named, 4 * self.evidence + 8) if not held(chunk)]
        if not answered:
            return within_tokens(found[: self.evidence], self.tokens) or None
        own = [chunk for chunk in asked.chunks if held(chunk)][:1]
        if not own:
            return None
        # A search finds it first more often than not; which place it has is drawn by a hash.
        others = [chunk for chunk in found if chunk.text != own[0].text][: self.evidence - 1]
        place = int(share_of(f"place {asked.made.question}") ** 2 * (len(others) + 1))
        shown = within_tokens([*others[:place], *own, *others[place:]], self.tokens)
        return shown if own[0] in shown else within_tokens([*own, *others], self.tokens)

    def example(
        self, asked: Asked, number: int, *, answered: bool, step: bool, pointing: bool, model: str
    ) -> Example | None:
        """The row of a question; None where its evidence cannot be shown."""
        shown = self.shown(asked, answered=answered)
        if shown is None:
            return None
        made = asked.made
        question = made.pointing if pointing and made.pointing else made.question
        form, name = (STEP_ANSWER, "step_answer") if step else (ANSWER, self.about)
        values: dict[str, Any] = {"question": question, "evidence": shown}
        if not step:
            values |= {"history": (), "entity": asked.page["page_name"] if pointing else None}
        request = self.prompts[name].request(**values)
        right = made.answer if step else made.truth
        return Example(
            session_id=asked.session,
            interaction_id=f"{asked.session}#{number}{'' if answered else '-taken-out'}",
            prompt=name,
            form=form.name,
            messages=messages_of(request, []),
            reply=right if answered else IDK,
            verdict="correct" if answered else "miss",
            query=question,
            ground_truth=right if answered else IDK,
            accept=(made.answer,) if answered else (),
            reply_verdict="correct" if answered else "miss",
            model=model,
            max_tokens=request.max_tokens,
        )


def by_rule(pages: Sequence[WebPage], corpus: Corpus) -> Iterator[Asked]:
    """The questions that the rules make of pages."""
    rules = QuestionRules(page["page_snippet"] for page in pages)
    for page in pages:
        for made in rules.questions(page["page_name"], page["page_snippet"]):
            yield Asked(page, made, corpus.of(page))


def _question_of(reply: ChatReply) -> tuple[str, str] | None:
    question, answer = labelled(reply.text, "question"), labelled(reply.text, "answer")
    if not question or not answer or not question.endswith("?") or refuses(answer):
        return None
    return question, answer.rstrip(".")


QUESTION_OF = ReplyForm("question and answer", _question_of)


class _OnePrompt:
    """The prompt of this module beside those of the preset."""

    def __init__(self, prompts: PromptLibrary) -> None:
        self._prompts, self._own = prompts, Prompt(PROMPT)

    def __getitem__(self, name: str) -> Prompt:
        return self._own if name == PROMPT.stem else self._prompts[name]


def by_model(
    pages: Sequence[WebPage], corpus: Corpus, config: RunConfig, replies: ReplyStore, judge: Judge
) -> tuple[list[Asked], str, Counter[str]]:
    """Questions that the chat model writes, one a page; its name; and how many there are of each fate.

    Kept are those whose answer stands in the page, and is what the same model answers when it reads the page, by the judge.

    Raises:
        ModelError: The model cannot answer at all.
    """
    models, prompts, size = (
        config.models(replies=replies),
        _OnePrompt(config.prompts),
        config.settings.limits.batch_size,
    )

    def said(questions: Sequence[Question[Any]]) -> list[Any]:
        batches = [questions[start : start + size] for start in range(0, len(questions), size)]
        return [answer for batch in batches for answer in put(batch, prompts, models.chat)]

    ask, fates = Ask(PROMPT.stem, QUESTION_OF), Counter[str]()
    written = said([Question(ask, {"title": page["page_name"], "text": page["page_snippet"]}) for page in pages])
    kept: list[Asked] = []
    for page, reply in zip(pages, written, strict=True):
        if reply.value is None:
            fates["unreadable"] += 1
            continue
        question, answer = reply.value
        made = MadeQuestion(WRITTEN, question, None, answer, answer, "")
        if holds_answer(page["page_snippet"], question, answer, (answer,)) and not holds_answer(
            question, "", answer, (answer,)
        ):
            kept.append(Asked(page, made, corpus.of(page)))
        else:
            fates["answer not in the page"] += 1
    answers = said(
        [
            Question(Ask("step_answer", STEP_ANSWER), {"question": asked.made.question, "evidence": asked.chunks})
            for asked in kept
        ]
    )
    turns = [
        AnsweredTurn(
            asked.session,
            asked.session,
            0,
            False,
            None,
            "",
            "",
            "",
            asked.made.question,
            asked.made.answer,
            answer_in(reply.text),
            1,
        )
        for asked, reply in zip(kept, answers, strict=True)
    ]
    judged = judge_turns(turns, judge, accept={asked.session: (asked.made.answer,) for asked in kept})
    agreed = [asked for asked, found in zip(kept, judged, strict=True) if found.correct]
    fates["the model answers otherwise"] = len(kept) - len(agreed)
    fates["kept"] = len(agreed)
    return agreed, models.chat().name, fates


class MadeOptions(JudgedOptions):
    """How many questions are made, and how they are put."""

    dataset: Path | None = Field(
        None, description="local data sets whose public_test is kept out by its questions' words too"
    )
    revision: str = Field(DEFAULT_REVISION, description="data set revision")
    limit: Annotated[int, Flag(metavar="N")] = Field(300, ge=1, description="questions, kind by kind in turn")
    refusals: float = Field(
        0.5, ge=0, le=1, description="share of the questions that are asked a second time without what answers them"
    )
    steps: float = Field(
        0.25, ge=0, le=1, description="share that is asked in the prompt of a step, with the fact alone as the answer"
    )
    pointing: float = Field(
        0.5, ge=0, le=1, description='share, of those that a photo could show, that ask about "this bird"'
    )
    held_out: float = Field(0.1, gt=0, lt=1, description="share of the pages held out")
    preset: str = Field("best", description="preset whose prompts and evidence are served")
    profile: str = Field("embedded", description="profile: its budget of evidence, and with --by-model its chat model")
    by_model: Annotated[int, Flag(metavar="N")] = Field(
        0, ge=0, description="pages of which the profile's chat model writes a question too"
    )
    tokenizer: Annotated[str | None, Flag(metavar="PATH")] = Field(
        None, description="tokenizer that counts tokens, a folder or ORG/NAME@COMMIT; not given: none are counted"
    )


def kept_out(asked: Asked, claimed: Claimed, test: TestContent | None) -> str | None:
    """Why a question may not be trained on; None where it may."""
    made = asked.made
    if claimed.named_in(f"{asked.page['page_name']} {made.question} {made.truth}"):
        return "names an entity"
    wordings = filter(None, (made.question, made.pointing))
    return "asked in public_test" if test is not None and any(map(test.asks, wordings)) else None


def _rows(asked: Asked, number: int, shower: Shower, options: MadeOptions, model: str) -> list[Example]:
    """The row of a question, with the one that it cannot be answered in where hashes draw it; none where a row cannot be shown."""
    made = asked.made
    step = share_of(f"step {made.question}") < options.steps
    pointing = not step and made.pointing is not None and share_of(f"pointing {made.question}") < options.pointing
    again = share_of(f"refusal {made.question}") < options.refusals
    rows = [
        shower.example(asked, number, answered=answered, step=step, pointing=pointing, model=model)
        for answered in ((True, False) if again else (True,))
    ]
    whole = [row for row in rows if row is not None]
    return whole if len(whole) == len(rows) else []


def run(options: MadeOptions) -> None:
    """Make, check, write and count; raises one of ``command_line.FAILURES`` where something is missing."""
    test = read_test_content(options.dataset, options.revision, options.cache) if options.dataset is not None else None
    config, claimed = RunConfig.read(options.preset, options.profile, cache=options.cache), Claimed.read()
    served = Answer.Options.model_validate(config.settings.options(Answer).model_dump())
    every = training_pages()
    pages = [page for page in every if not claimed.named_in(page["page_name"])]
    cut = ChunkOptions.model_validate({})
    corpus = Corpus(pages, cut)
    # No entity of a question set in what is read either.
    corpus.chunks = [chunk for chunk in corpus.chunks if not claimed.named_in(chunk.text)]
    found, about = list(by_rule(pages, corpus)), dict[str, Any]()
    writer = ""
    if options.by_model:
        some = sorted(pages, key=lambda page: share_of(f"written {page['page_url']}"))[: options.by_model]
        judge = choose_judge(options.eval_model, cache=options.cache)
        written, writer, fates = by_model(some, corpus, config, ReplyStore(options.cache / REPLIES), judge)
        about["written"] = {"model": writer, "judge": judge.name, **dict(sorted(fates.items()))}
        found += written
    reasons = [kept_out(asked, claimed, test) for asked in found]
    about["kept_out"] = dict(sorted(Counter(filter(None, reasons)).items()))
    allowed = {
        (asked.made.kind, asked.made.question): asked
        for asked, reason in zip(found, reasons, strict=True)
        if reason is None
    }
    order = spread([asked.made for asked in allowed.values()], [share_of(question) for _, question in allowed])
    shower = Shower(corpus, config.prompts, served.evidence, config.settings.limits.evidence_tokens, served.prompt)
    examples: list[Example] = []
    kinds: Counter[str] = Counter()
    for made in order:
        if kinds.total() >= options.limit:
            break
        asked = allowed[made.kind, made.question]
        rows = _rows(asked, kinds.total(), shower, options, writer if made.kind == WRITTEN else "")
        if any(claimed.named_in(row.messages[-1].content) for row in rows):
            continue
        examples += rows
        kinds[made.kind] += bool(rows)
    if not examples:
        raise TrainingDataError("no page made a question")
    sides = write_collection(examples, options.out, options.held_out)
    tokenizer = None
    if options.tokenizer is not None:
        from transformers import AutoTokenizer

        source, revision = split_revision(options.tokenizer)
        tokenizer = AutoTokenizer.from_pretrained(source, revision=revision, trust_remote_code=False)
    about |= {
        "pages": len(pages),
        "public_test": f"entities of both splits kept out by name{', its questions by their words' if test is not None else ''}",
        "questions": {"found": len(found), **dict(sorted(kinds.items()))},
        "held_out_share": options.held_out,
    }
    for side, rows in sides.items():
        prompts = sorted({row.prompt for row in rows})
        about[side] = {
            "pages": len({row.session_id for row in rows}),
            "prompts": {
                prompt: describe([row for row in rows if row.prompt == prompt], tokenizer) for prompt in prompts
            },
        }
    write_about(options.out, about)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    return run_command(run, MadeOptions, arguments, __doc__)


if __name__ == "__main__":
    raise SystemExit(main())
