"""CRAG-MM as a task of Inspect (inspect.aisi.org.uk): any model with this project's two searches as tools, or this project's agent.

Run: ``inspect eval examples/inspect_crag_mm.py --model PROVIDER/MODEL`` (docs/inspect.md).
"""

import base64
import io
import json
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any, TypeVar

import anyio
from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    ContentImage,
    ContentText,
    ModelOutput,
)
from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, metric, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.tool import ToolDef
from PIL import Image

from agents.base_agent import Message
from agents.crag_agent import CragAgent
from agents.evidence.lookup import Found, LookupQuery, Region
from agents.settings.run_config import RunConfig
from apps.answering import Answerer, AnswererOptions, Question, start
from evaluation.data import own_dataset
from evaluation.judge.judging import judge_turns
from evaluation.judge.rule_judge import RuleJudge
from evaluation.records import DEFAULT_REVISION, AnsweredTurn
from evaluation.run.truncation import load_truncator
from evaluation.scores.scoring import truthfulness_points

ROOT = Path(__file__).resolve().parents[1]
"""Relative paths begin here: Inspect runs a task in its file's folder."""
PROMPT = Path(__file__).with_name("inspect_prompt.txt")
MAX_MESSAGES = 20  # of a sample: some eight searches
_SECONDS = 60.0  # for a search
_RESULTS = 5

T = TypeVar("T")


@task
def crag_mm(
    dataset: str = ".cache/datasets", split: str = "validation", knowledge: str = "", data_cache: str = ".cache"
) -> Task:
    """Build the task of a split of the mini CRAG-MM, or of a collection's own questions.

    Args:
        dataset: Folder in the organiser's layout, or a file of questions.
        split: Split of the data set and of the indices.
        knowledge: Collection that is searched; its ``questions.csv`` is then the data set.
        data_cache: Folder of the indices.
    """
    data = own_dataset.load("single-turn", split, DEFAULT_REVISION, ROOT / (knowledge or dataset), ROOT / data_cache)
    samples = []
    for session in data.sessions:
        photo = data.image(session).image
        messages: list[ChatMessage] = []
        for turn in session.turns:
            picture = [ContentImage(image=encode_photo(photo))] if photo is not None and not messages else []
            messages.append(ChatMessageUser(content=[*picture, ContentText(text=turn.query)]))
            about = {"accept": list(data.accept.get(turn.interaction_id, ())), "category": turn.query_category}
            samples.append(Sample(list(messages), target=turn.ground_truth, id=turn.interaction_id, metadata=about))
            messages.append(ChatMessageAssistant(content=turn.ground_truth))
    return Task(
        dataset=MemoryDataset(samples, name=data.name),
        solver=search_tools(split, knowledge, data_cache),
        scorer=crag_mm_rules(),
        message_limit=MAX_MESSAGES,
    )


@solver
def search_tools(
    split: str = "validation", knowledge: str = "", data_cache: str = ".cache", profile: str = "server_embedded"
) -> Solver:
    """Let a model call the two searches until it answers; ``profile`` names the encoders, whose indices are searched."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        agent = open_agent(split, knowledge, data_cache, profile)
        photo = find_photo(state.messages)

        async def look_up(query: LookupQuery) -> str:
            [found] = await _in_thread(lambda: agent.look_up([query], _SECONDS))
            return format_found(found)

        async def search_photo(box: list[float] | None = None) -> str:
            region: Region | None = None
            if box is not None:
                left, top, right, bottom = (min(max(float(edge), 0.0), 1.0) for edge in box)
                region = left, top, right, bottom
            return await look_up(LookupQuery(photo, region, k=_RESULTS))

        async def search_pages(query: str) -> str:
            return await look_up(LookupQuery(text=query, k=_RESULTS))

        box = "part of the photo: left, top, right, bottom as fractions of its width and height; leave it out for all of it"
        of_photo = ToolDef(
            search_photo, "search_photo", "Find what the photo, or a part of it, shows.", parameters={"box": box}
        )
        of_pages = ToolDef(
            search_pages, "search_pages", "Find passages of pages.", parameters={"query": "words to search for"}
        )
        state.messages.insert(0, ChatMessageSystem(content=PROMPT.read_text(encoding="utf-8")))
        state.tools = [each.as_tool() for each in ([of_photo, of_pages] if photo is not None else [of_pages])]
        return await generate(state)

    return solve


@solver
def crag_agent(
    split: str = "validation",
    knowledge: str = "",
    data_cache: str = ".cache",
    preset: str = "best",
    profile: str = "embedded",
) -> Solver:
    """Answer with this project's agent. Its models are those of the profile; Inspect's ``--model`` is not asked."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:  # noqa: ARG001 - the signature of a solver
        answerer = open_answerer(split, knowledge, data_cache, preset, profile)
        *before, last = state.messages
        history = [Message(role=each.role, content=each.text) for each in before if each.role in ("user", "assistant")]
        question = Question(last.text, find_photo(state.messages), history)
        [outcome] = await _in_thread(lambda: answerer.answer([question]))
        state.store.set("crag", outcome.as_json())
        state.output = ModelOutput.from_content(f"crag-mm-{preset}", outcome.answer)
        state.messages.append(state.output.message)
        return state

    return solve


def _average(count: Callable[[float], float]) -> Metric:
    """Return a metric: the mean over samples of a number that is counted from their points."""

    def compute(scores: list[SampleScore]) -> float:
        return fmean(float(count(each.score.as_float())) for each in scores) if scores else 0.0

    return compute


@metric
def truthfulness() -> Metric:
    """Return CRAG-MM's truthfulness: accuracy less hallucination, -1 to 1."""
    return _average(lambda points: points)


@metric
def accuracy() -> Metric:
    """Return the share of right answers."""
    return _average(lambda points: points > 0)


@metric
def missing() -> Metric:
    """Return the share of "I don't know"."""
    return _average(lambda points: points == 0)


@metric
def hallucination() -> Metric:
    """Return the share of wrong answers."""
    return _average(lambda points: points < 0)


@scorer(metrics=[truthfulness(), stderr(), accuracy(), missing(), hallucination()])
def crag_mm_rules() -> Scorer:
    """Score an answer by this project's rules and rule judge, cut to 75 tokens as the challenge does: 1 right, 0 missing, -1 wrong."""
    truncator, judge = load_truncator(), RuleJudge()

    async def score(state: TaskState, target: Target) -> Score:
        answer = truncator.truncate(state.output.completion)
        query = state.user_prompt.text
        turn = AnsweredTurn("", str(state.sample_id), 0, False, None, "", "", "", query, target.text, answer, 1)
        [judged] = judge_turns([turn], judge, accept={turn.interaction_id: state.metadata["accept"]})
        return Score(value=truthfulness_points(judged), answer=answer, explanation=f"{judged.verdict}: {judged.reason}")

    return score


def encode_photo(photo: Image.Image) -> str:
    """Encode a photo as a data URL."""
    buffer = io.BytesIO()
    photo.convert("RGB").save(buffer, "JPEG", quality=95)
    return f"data:image/jpeg;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def find_photo(messages: list[ChatMessage]) -> Image.Image | None:
    """Decode the photo of a sample's dialog; None if it is asked without one."""
    for message in messages:
        for part in message.content if isinstance(message.content, list) else []:
            if isinstance(part, ContentImage):
                with Image.open(io.BytesIO(base64.b64decode(part.image.partition(",")[2]))) as photo:
                    return photo.convert("RGB")
    return None


def format_found(found: Found) -> str:
    """Format what a search found as a tool tells it to a model."""
    if found.off or found.error:
        return f"error: {found.error or f'there is no {found.off}'}"
    things = [
        f"{it.name} (cosine {it.score:.2f}): {json.dumps(dict(it.facts), ensure_ascii=False)}" for it in found.entities
    ]
    return "\n\n".join([*things, *(f"{it.title} ({it.url}): {it.text}" for it in found.passages)]) or "nothing found"


@cache
def open_agent(split: str, knowledge: str, data_cache: str, profile: str) -> CragAgent:
    """Open the search; the chat models of the agent around it are never loaded."""
    collection = ROOT / knowledge if knowledge else None
    config = RunConfig.read("best", profile, cache=ROOT / data_cache, knowledge=collection)
    return CragAgent.from_config(config, config.pipeline(**config.plan_search(split)))


@cache
def open_answerer(split: str, knowledge: str, data_cache: str, preset: str, profile: str) -> Answerer:
    """Start the agent and load its models."""
    collection = ROOT / knowledge if knowledge else None
    return start(
        AnswererOptions(
            preset=preset,
            profile=profile,
            split=None if knowledge else split,
            knowledge=collection,
            cache=ROOT / data_cache,
        )
    )


_one_at_a_time = threading.Lock()


async def _in_thread(work: Callable[[], T]) -> T:
    """Run blocking work beside Inspect's loop; samples take turns."""

    def run() -> Any:
        with _one_at_a_time:
            return work()

    return await anyio.to_thread.run_sync(run)
