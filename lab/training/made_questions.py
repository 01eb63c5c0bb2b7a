"""Make questions for training from pages that belong to no question.

    python -m lab.training.made_questions --dataset .cache/datasets --out data/made

Some come with evidence that answers them, others without. The pages are the mini CRAG-MM's background summaries that no index of its usual
size holds. A rule makes a question of a sentence (``question_rules.toml``). With --by-model the profile's chat model writes more, which
are kept if its own answer from the page agrees. Each is asked in the prompts that the preset serves, among chunks of other pages. A share
is asked again without the chunks that hold the answer: the reply to be learned is "I don't know". OUT is a folder like those of
``training.collect``, for ``training.sft``.

Two kinds of questions are left out and counted: those that name an entity of the mini set, of either split, and those in the words of a
question of public_test.
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
from agents.evidence.chunks import ChunkOptions, make_cutter
from agents.evidence.shown import within_tokens
from agents.models.base import ChatReply
from agents.models.reply_cache import ReplyStore
from agents.settings.run_config import RunConfig
from agents.stages.answer import Answer
from agents.texts.refusals import refuses
from agents.texts.replies import read_label
from agents.turn import IDK, Evidence
from evaluation.judge.judging import Judge, choose_judge, judge_turns
from evaluation.records import DEFAULT_REVISION, REPLIES, AnsweredTurn
from lab.training.question_rules import MadeQuestion, QuestionRules, interleave_kinds
from mini_crag_mm.content_models import load_content
from mini_crag_mm.index_contents import BACKGROUND, sample_pages
from mini_crag_mm.loader import SET, WebPage
from mini_crag_mm.wikipedia import read_background_pages
from training.chat_examples import Example, TrainingDataError, build_messages, hash_to_share
from training.collect import describe, holds_answer, read_answer, write_collection
from training.command_line import JudgedOptions, run_command, write_about
from training.public_test import TestContent, read_test_content

WRITTEN = "written by the model"
"""The kind of a question that the model wrote."""

PROMPT = Path(__file__).with_name("question_of_page.j2")

_WORDS = re.compile(r"\w+")


@dataclass(frozen=True)
class DraftQuestion:
    """A question, the page that it was made of, and the chunks of that page."""

    page: WebPage
    made_question: MadeQuestion
    chunks: tuple[Evidence, ...]

    @property
    def session(self) -> str:
        """Session id of its page, so that the sides hold different pages, not different questions."""
        return f"made-{self.page['page_url']}"


class ClaimedNames:
    """Names that belong to the question sets: those of all entities of the mini set."""

    def __init__(self, names: Iterable[str]) -> None:
        words = sorted({" ".join(_WORDS.findall(name.lower())) for name in names}, key=len, reverse=True)
        self._names = re.compile(rf"\b(?:{'|'.join(map(re.escape, words))})(?:e?s)?\b") if words else None

    @classmethod
    def read(cls) -> ClaimedNames:
        """Read the entities of both splits, with the others that their photographs show."""
        entities = load_content(SET.content).entities.values()
        return cls([name for entity in entities for name in (entity.name, *(other.name for other in entity.also))])

    def named_in(self, text: str) -> bool:
        """Return whether a text names one of them, in the singular or the plural."""
        return self._names is not None and self._names.search(" ".join(_WORDS.findall(text.lower()))) is not None


def list_training_pages() -> list[WebPage]:
    """Return the background summaries that no index of the usual size holds, in the order of a hash."""
    return sample_pages(read_background_pages(), -1)[BACKGROUND:]


class Corpus:
    """Chunks of all pages, cut as the agent cuts them, with a search by their words (TF-IDF)."""

    def __init__(self, pages: Sequence[WebPage], options: ChunkOptions) -> None:
        cut = make_cutter(options)
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

    def get_chunks(self, page: WebPage) -> tuple[Evidence, ...]:
        """Return the chunks of a page."""
        return tuple(self._by_page.get(page["page_url"], ()))

    def nearest(self, question: str, limit: int) -> list[Evidence]:
        """Return the chunks most similar to a question, best first, each with its score."""
        words, vectors = self._vectors
        scores = (vectors @ words.transform([question]).T).toarray().ravel()
        order = np.argsort(-scores, kind="stable")[:limit]
        return [self.chunks[place].with_score(float(scores[place])) for place in order]


@dataclass(frozen=True)
class QuestionFormatter:
    """Formats questions as the preset serves them: its prompts, so many chunks, within its token budget."""

    corpus: Corpus
    prompts: PromptLibrary
    evidence: int
    tokens: int | None
    about: str  # what a photo's question is asked by: the preset's prompt for answers with evidence

    def select_evidence(self, draft: DraftQuestion, *, answered: bool) -> tuple[Evidence, ...] | None:
        """Select the evidence of a question, best first, with or without what answers it.

        Returns:
            None if the answer does not fit, or no evidence is left.
        """

        def has_answer(chunk: Evidence) -> bool:
            return holds_answer(
                chunk.text, draft.made_question.question, draft.made_question.truth, (draft.made_question.answer,)
            )

        named = f"{draft.page['page_name']} {draft.made_question.question}"
        chunks = [chunk for chunk in self.corpus.nearest(named, 4 * self.evidence + 8) if not has_answer(chunk)]
        if not answered:
            return within_tokens(chunks[: self.evidence], self.tokens) or None
        own = [chunk for chunk in draft.chunks if has_answer(chunk)][:1]
        if not own:
            return None
        # A search finds it first more often than not; which place it has is drawn by a hash.
        others = [chunk for chunk in chunks if chunk.text != own[0].text][: self.evidence - 1]
        place = int(hash_to_share(f"place {draft.made_question.question}") ** 2 * (len(others) + 1))
        evidence = within_tokens([*others[:place], *own, *others[place:]], self.tokens)
        return evidence if own[0] in evidence else within_tokens([*own, *others], self.tokens)

    def example(
        self, draft: DraftQuestion, number: int, *, answered: bool, step: bool, pointing: bool, model: str
    ) -> Example | None:
        """Build the row of a question; None if its evidence cannot be shown."""
        evidence = self.select_evidence(draft, answered=answered)
        if evidence is None:
            return None
        made_question = draft.made_question
        question = made_question.pointing if pointing and made_question.pointing else made_question.question
        form, name = (STEP_ANSWER, "step_answer") if step else (ANSWER, self.about)
        values: dict[str, Any] = {"question": question, "evidence": evidence}
        if not step:
            values |= {"history": (), "entity": draft.page["page_name"] if pointing else None}
        request = self.prompts[name].request(**values)
        right = made_question.answer if step else made_question.truth
        return Example(
            session_id=draft.session,
            interaction_id=f"{draft.session}#{number}{'' if answered else '-taken-out'}",
            prompt=name,
            form=form.name,
            messages=build_messages(request, []),
            reply=right if answered else IDK,
            verdict="correct" if answered else "miss",
            query=question,
            ground_truth=right if answered else IDK,
            accept=(made_question.answer,) if answered else (),
            reply_verdict="correct" if answered else "miss",
            model=model,
            max_tokens=request.max_tokens,
        )


def make_by_rule(pages: Sequence[WebPage], corpus: Corpus) -> Iterator[DraftQuestion]:
    """Yield the questions that the rules make of pages."""
    rules = QuestionRules(page["page_snippet"] for page in pages)
    for page in pages:
        for made_question in rules.questions(page["page_name"], page["page_snippet"]):
            yield DraftQuestion(page, made_question, corpus.get_chunks(page))


def _parse_question(reply: ChatReply) -> tuple[str, str] | None:
    question, answer = read_label(reply.text, "question"), read_label(reply.text, "answer")
    if not question or not answer or not question.endswith("?") or refuses(answer):
        return None
    return question, answer.rstrip(".")


QUESTION_FORM = ReplyForm("question and answer", _parse_question)


class _OnePrompt:
    """Prompts of the preset, and the prompt of this module beside them."""

    def __init__(self, prompts: PromptLibrary) -> None:
        self._prompts, self._own = prompts, Prompt(PROMPT)

    def __getitem__(self, name: str) -> Prompt:
        return self._own if name == PROMPT.stem else self._prompts[name]


def make_by_model(
    pages: Sequence[WebPage], corpus: Corpus, config: RunConfig, replies: ReplyStore, judge: Judge
) -> tuple[list[DraftQuestion], str, Counter[str]]:
    """Let the chat model write a question a page, and keep the sound ones.

    A question is kept if its answer stands in the page, and the same model gives that answer when it reads the page, by the judge.

    Returns:
        The questions, the name of the model, and how many questions had each fate.

    Raises:
        ModelError: The model cannot answer at all.
    """
    models, prompts, size = (
        config.models(replies=replies),
        _OnePrompt(config.prompts),
        config.settings.limits.batch_size,
    )

    def ask_model(questions: Sequence[Question[Any]]) -> list[Any]:
        batches = [questions[start : start + size] for start in range(0, len(questions), size)]
        return [answer for batch in batches for answer in put(batch, prompts, models.chat)]

    ask, fates = Ask(PROMPT.stem, QUESTION_FORM), Counter[str]()
    written_replies = ask_model(
        [Question(ask, {"title": page["page_name"], "text": page["page_snippet"]}) for page in pages]
    )
    drafts: list[DraftQuestion] = []
    for page, reply in zip(pages, written_replies, strict=True):
        if reply.value is None:
            fates["unreadable"] += 1
            continue
        question, answer = reply.value
        made_question = MadeQuestion(WRITTEN, question, None, answer, answer, "")
        if holds_answer(page["page_snippet"], question, answer, (answer,)) and not holds_answer(
            question, "", answer, (answer,)
        ):
            drafts.append(DraftQuestion(page, made_question, corpus.get_chunks(page)))
        else:
            fates["answer not in the page"] += 1
    answers = ask_model(
        [
            Question(
                Ask("step_answer", STEP_ANSWER), {"question": draft.made_question.question, "evidence": draft.chunks}
            )
            for draft in drafts
        ]
    )
    turns = [
        AnsweredTurn(
            draft.session,
            draft.session,
            0,
            False,
            None,
            "",
            "",
            "",
            draft.made_question.question,
            draft.made_question.answer,
            read_answer(answer.reply),
            1,
        )
        for draft, answer in zip(drafts, answers, strict=True)
    ]
    judged = judge_turns(turns, judge, accept={draft.session: (draft.made_question.answer,) for draft in drafts})
    agreed = [draft for draft, judged_turn in zip(drafts, judged, strict=True) if judged_turn.correct]
    fates["the model answers otherwise"] = len(drafts) - len(agreed)
    fates["kept"] = len(agreed)
    return agreed, models.chat().name, fates


class MadeOptions(JudgedOptions):
    """Options of how many questions are made, and how they are put."""

    dataset: Path | None = Field(
        None, description="local data sets; questions in the words of their public_test are left out"
    )
    revision: str = Field(DEFAULT_REVISION, description="data set revision")
    limit: Annotated[int, Flag(metavar="N")] = Field(
        300, ge=1, description="number of questions, the kinds interleaved"
    )
    refusals: float = Field(
        0.5, ge=0, le=1, description="share of the questions asked a second time without the evidence that answers them"
    )
    steps: float = Field(
        0.25,
        ge=0,
        le=1,
        description="share of the questions in the prompt of a step, with the fact alone as the answer",
    )
    pointing: float = Field(
        0.5, ge=0, le=1, description='share of the questions on what a photo can show that ask about "this bird"'
    )
    held_out: float = Field(0.1, gt=0, lt=1, description="share of the pages held out")
    preset: str = Field("best", description="preset whose prompts and evidence are served")
    profile: str = Field(
        "embedded", description="profile of the evidence budget and, with --by-model, of the chat model"
    )
    by_model: Annotated[int, Flag(metavar="N")] = Field(
        0, ge=0, description="number of pages of which the profile's chat model writes a question too"
    )
    tokenizer: Annotated[str | None, Flag(metavar="PATH")] = Field(
        None, description="tokenizer to count tokens with, a folder or ORG/NAME@COMMIT; default: none are counted"
    )


def explain_exclusion(draft: DraftQuestion, claimed: ClaimedNames, test: TestContent | None) -> str | None:
    """Return the reason why a question may not be trained on; None if it may."""
    made_question = draft.made_question
    if claimed.named_in(f"{draft.page['page_name']} {made_question.question} {made_question.truth}"):
        return "names an entity"
    wordings = filter(None, (made_question.question, made_question.pointing))
    return "asked in public_test" if test is not None and any(map(test.asks, wordings)) else None


def _build_rows(
    draft: DraftQuestion, number: int, shower: QuestionFormatter, options: MadeOptions, model: str
) -> list[Example]:
    """Build the row of a question and, if a hash draws it, the row without the evidence that answers it.

    Returns:
        [] if a row cannot be shown.
    """
    made_question = draft.made_question
    step = hash_to_share(f"step {made_question.question}") < options.steps
    pointing = (
        not step
        and made_question.pointing is not None
        and hash_to_share(f"pointing {made_question.question}") < options.pointing
    )
    again = hash_to_share(f"refusal {made_question.question}") < options.refusals
    rows = [
        shower.example(draft, number, answered=answered, step=step, pointing=pointing, model=model)
        for answered in ((True, False) if again else (True,))
    ]
    whole = [row for row in rows if row is not None]
    return whole if len(whole) == len(rows) else []


def run(options: MadeOptions) -> None:
    """Make the questions, check, write and count them.

    Raises:
        One of ``command_line.FAILURES``: Something is missing.
    """
    test = read_test_content(options.dataset, options.revision, options.cache) if options.dataset is not None else None
    config, claimed = RunConfig.read(options.preset, options.profile, cache=options.cache), ClaimedNames.read()
    served = Answer.Options.model_validate(config.settings.options(Answer).model_dump())
    every = list_training_pages()
    pages = [page for page in every if not claimed.named_in(page["page_name"])]
    cut = ChunkOptions.model_validate({})
    corpus = Corpus(pages, cut)
    # No entity of a question set in what is read either.
    corpus.chunks = [chunk for chunk in corpus.chunks if not claimed.named_in(chunk.text)]
    drafts, about = list(make_by_rule(pages, corpus)), dict[str, Any]()
    writer = ""
    if options.by_model:
        some = sorted(pages, key=lambda page: hash_to_share(f"written {page['page_url']}"))[: options.by_model]
        judge = choose_judge(options.eval_model, cache=options.cache)
        written_drafts, writer, fates = make_by_model(some, corpus, config, ReplyStore(options.cache / REPLIES), judge)
        about["written"] = {"model": writer, "judge": judge.name, **dict(sorted(fates.items()))}
        drafts += written_drafts
    reasons = [explain_exclusion(draft, claimed, test) for draft in drafts]
    about["kept_out"] = dict(sorted(Counter(filter(None, reasons)).items()))
    allowed = {
        (draft.made_question.kind, draft.made_question.question): draft
        for draft, reason in zip(drafts, reasons, strict=True)
        if reason is None
    }
    order = interleave_kinds(
        [draft.made_question for draft in allowed.values()], [hash_to_share(question) for _, question in allowed]
    )
    shower = QuestionFormatter(corpus, config.prompts, served.k, config.settings.limits.evidence_tokens, served.prompt)
    examples: list[Example] = []
    kinds: Counter[str] = Counter()
    for made_question in order:
        if kinds.total() >= options.limit:
            break
        draft = allowed[made_question.kind, made_question.question]
        rows = _build_rows(draft, kinds.total(), shower, options, writer if made_question.kind == WRITTEN else "")
        if any(claimed.named_in(row.messages[-1].content) for row in rows):
            continue
        examples += rows
        kinds[made_question.kind] += bool(rows)
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
        "questions": {"found": len(drafts), **dict(sorted(kinds.items()))},
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
    """Run the command."""
    return run_command(run, MadeOptions, arguments, __doc__)


if __name__ == "__main__":
    raise SystemExit(main())
