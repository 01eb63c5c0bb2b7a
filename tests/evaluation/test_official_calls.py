"""The loops of both official evaluators, written down a second time, around the agent on the questions of the mini set.

The starter kit hands the agent a search pipeline. The research release hands it none, makes the same searches itself and passes what it
found as text. Models and search are stand-ins that know the set's content, photographs are plain pictures of a colour a session: what is
tested is that both ways of calling get the same answers, and that each evaluator's scores of them are ours.
"""

from __future__ import annotations

import dataclasses
import re
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from agents.base_agent import BaseAgent
from agents.crag_agent import CragAgent
from agents.models.base import ChatReply, ChatRequest
from agents.profiles.model_set import ModelSet
from agents.profiles.profile import Profile
from agents.settings.presets import load_settings
from agents.turn import IDK
from evaluation.data.dataset_images import LoadedImage
from evaluation.data.rows import to_session
from evaluation.judge.judging import judge_turns
from evaluation.records import AnsweredTurn, Session
from evaluation.rules import RESEARCH_RELEASE, STARTER_KIT, Rules
from evaluation.run.generate import generate
from evaluation.run.provided_evidence import PAGES, PICTURES, format_evidence
from evaluation.scores.scoring import score, select_ego
from mini_crag_mm.content_models import Content, Dialog, Question, load_content
from mini_crag_mm.loader import SET, read_kg, read_pages
from tests.evaluation.test_release_rules import Rows, Says, official_rows, official_scores, select_ego_rows
from tests.evaluation.worlds import PLAIN
from tests.support.scripted_parts import Chat, ready

BATCH = 5
SINGLE, DIALOGS = 20, 8
OVERRIDES = ("limits.seconds_per_turn=1000", "limits.seconds_per_dialog=10000", f"limits.batch_size={BATCH}")
FIRST_COSINES = (0.70, 0.72, 0.73, 0.755, 0.78, 0.82, 0.86, 0.91)
"""Of the first hits of validation's photos in the embedded index: their minimum, maximum and percentiles between."""
_TAKEN_FOR = re.compile(r"took the photo to show: \"(.+?)\"\. It may be another thing")


class MiniWorld:
    """The first questions and dialogs of a split as rows of the data set, with a search and an answer key over the set's content."""

    def __init__(self) -> None:
        content: Content = load_content(SET.content)
        self.rows: Rows = []
        self.shown: list[list[str]] = []  # of each row the names of the entities in its scene
        self.key: dict[
            tuple[int, str], tuple[str, str | None]
        ] = {}  # row and query: answer, name of the entity asked about
        self.graph = {
            entity["entity_name"]: picture for picture in read_kg("public_test") for entity in picture["entities"]
        }
        self.pages = [(page, set(_words(page["page_snippet"]))) for page in read_pages("public_test")]
        items = [each for each in content.list_items() if each.split == "public_test"]
        questions = [each for each in items if isinstance(each, Question)][:SINGLE]
        for item in [*questions, *[each for each in items if isinstance(each, Dialog)][:DIALOGS]]:
            self._add(item, content)

    def _add(self, item: Question | Dialog, content: Content) -> None:
        number, scene = len(self.rows), content.scenes[item.scene]
        turns = [item] if isinstance(item, Question) else list(item.turns)
        self.rows.append(
            {
                "session_id": f"{97 * number % 256:02x}-{item.id}",
                "image_url": None if scene.egocentric else f"https://photos.example/{number}.jpg",
                "turns": [
                    {
                        "interaction_id": f"{item.id}#{place}",
                        "domain": turn.domain,
                        "query_category": turn.query_category,
                        "dynamism": turn.dynamism,
                        "query": turn.query,
                        "image_quality": "normal",
                    }
                    for place, turn in enumerate(turns)
                ],
                "answers": [
                    {"interaction_id": f"{item.id}#{place}", "ans_full": turn.answer}
                    for place, turn in enumerate(turns)
                ],
            }
        )
        self.shown.append([content.entities[entity].name for entity in scene.entity_ids()])
        for turn in turns:
            entity = content.entities[turn.entity].name if turn.entity else None
            self.key[number, turn.query] = turn.answer, entity

    def picture(self, number: int, rules: Rules) -> Image.Image:
        """What stands for the photo of a row: a plain picture whose colour is its number."""
        picture = Image.new("RGB", (96, 72), (number, 255 - number, 0))
        ego = self.rows[number]["image_url"] is None
        return picture.resize((960, 1280)) if ego and rules is RESEARCH_RELEASE else picture

    def __call__(self, query: Any, k: int = 5) -> list[dict[str, Any]]:
        """The organiser's pipeline: a scene's entities that the graph holds and a less like one; pages by the words that they share."""
        if isinstance(query, str):
            words = set(_words(query))
            best = sorted(self.pages, key=lambda page: -len(words & page[1]))[:k]
            return [
                {"index": f"{page['page_url']}_chunk_0", "score": 0.5, **{name: page[name] for name in ("page_url", "page_name")},
                 "page_snippet": page["page_snippet"][:600]}
                for page, _ in best
            ]  # fmt: skip
        names = [name for name in self.shown[_number(query)] if name in self.graph]
        best = FIRST_COSINES[_number(query) % len(FIRST_COSINES)]
        hits = [(name, best - 0.01 * place) for place, name in enumerate(names)] + [(next(iter(self.graph)), 0.69)]
        return [
            {"index": place, "score": cosine, "url": self.graph[name]["image_url"], "entities": self.graph[name]["entities"][:1]}
            for place, (name, cosine) in enumerate(hits[:k])
        ]  # fmt: skip


class Reader(Chat):
    """Right where the photo was taken for what is asked about, wrong where for another thing; without either it does not know."""

    def __init__(self, world: MiniWorld) -> None:
        self.world = world

    def reply(self, request: ChatRequest) -> ChatReply:
        prompt = request.messages[-1]
        query = prompt.content.rpartition("Question: ")[2].strip()
        answer, entity = self.world.key[_number(prompt.images[0]), query]
        match = _TAKEN_FOR.search(prompt.content)
        if match is None or "[Info 1]" not in prompt.content:
            return ChatReply(IDK, "stop")
        return ChatReply(answer if match.group(1) == entity else f"wrong, it is {match.group(1)}", "stop")


def _number(picture: Image.Image) -> int:
    return int(picture.convert("RGB").getpixel((0, 0))[0])  # type: ignore[index]


def _words(text: str) -> list[str]:
    return re.findall(r"\w{4,}", text.lower())


@pytest.fixture(scope="module")
def world() -> MiniWorld:
    return MiniWorld()


def make_agent(world: MiniWorld, pipeline: Any) -> BaseAgent:
    """Build ``direct_rag`` under the competition's profile, with unchanged questions."""
    settings = load_settings("direct_rag", "gpu", overrides=OVERRIDES).without(["understand"])
    models = ModelSet(Profile(name="scripted", models={}), Path("unused"), ready=ready(chat=Reader(world)))
    return CragAgent(pipeline, settings=settings, models=models)


def official_run(world: MiniWorld, rules: Rules) -> Rows:
    """Return what the evaluator of a release records of each turn, in the order in which it asks."""
    release = rules is RESEARCH_RELEASE
    agent = make_agent(world, None if release else world)
    size = int(np.clip(agent.get_batch_size(), 1, 16))
    waiting = deque((number, 0) for number in range(len(world.rows)))
    responses: dict[str, str] = {}
    recorded: Rows = []
    while waiting:
        batch = [waiting.popleft() for _ in range(min(size, len(waiting)))]
        queries, images, histories, contexts, domains = [], [], [], [], []
        for number, place in batch:
            turns, image = world.rows[number]["turns"], world.picture(number, rules)
            history: list[dict[str, str]] = []
            for earlier in turns[:place]:
                history.append({"role": "user", "content": earlier["query"]})
                history.append({"role": "assistant", "content": responses[earlier["interaction_id"]]})
            queries.append(turns[place]["query"])
            images.append(image)
            histories.append(history)
            domains.append(turns[place]["domain"])
            contexts.append(searched(world, queries[-1], image))
        more = {"rag_context_list": contexts, "domains": domains} if release else {}
        answers = agent.batch_generate_response(queries, images, histories, **more)
        assert len(answers) == len(batch)
        for (number, place), answer in zip(batch, answers, strict=True):
            row = world.rows[number]
            turn, truth = row["turns"][place], row["answers"][place]["ans_full"]
            responses[turn["interaction_id"]] = truncated = PLAIN.truncate(answer)
            recorded.append(
                {
                    "session_id": row["session_id"],
                    "interaction_id": turn["interaction_id"],
                    "turn_idx": place,
                    "is_ego": row["image_url"] is None,
                    **{name: turn[name] for name in ("image_quality", "query_category", "domain", "dynamism", "query")},
                    "ground_truth": truth,
                    "agent_response": truncated,
                    "total_turn_count": len(row["turns"]),
                    "interaction_id_history": [earlier["interaction_id"] for earlier in row["turns"][:place]],
                }
            )
            if place + 1 < len(row["turns"]):
                waiting.appendleft((number, place + 1))
    return recorded


def searched(world: MiniWorld, query: str, image: Image.Image) -> str:
    """Return the text that the research release makes of its own two searches."""
    return format_evidence(query, world(image, k=PICTURES), world(query, k=PAGES))


@dataclasses.dataclass
class Resized:
    """The images as our evaluation passes them under the rules of a release."""

    world: MiniWorld
    rules: Rules

    def image(self, session: Session) -> LoadedImage:
        """The picture of a row."""
        return LoadedImage(self.world.picture(session.row, self.rules))


@pytest.fixture(scope="module")
def runs(world: MiniWorld) -> dict[str, Rows]:
    return {rules.name: official_run(world, rules) for rules in (STARTER_KIT, RESEARCH_RELEASE)}


def test_both_ways_of_calling_get_the_same_answers(world: MiniWorld, runs: dict[str, Rows]) -> None:
    kit, release = (
        {line["interaction_id"]: line["agent_response"] for line in runs[rules.name]}
        for rules in (STARTER_KIT, RESEARCH_RELEASE)
    )
    assert kit == release
    assert len(kit) == sum(len(row["turns"]) for row in world.rows) > SINGLE + 2 * DIALOGS
    scores = [official_scores(official_rows(runs[name], STARTER_KIT), STARTER_KIT) for name in runs]
    assert scores[0] == scores[1]
    shares = [scores[0][name] for name in ("accuracy", "missing", "hallucination_rate")]
    assert min(shares) > 0.05, "an agent that always says the same would show nothing"


@pytest.mark.parametrize("rules", [STARTER_KIT, RESEARCH_RELEASE], ids=lambda rules: rules.name)
def test_our_evaluation_gives_each_evaluators_scores(
    world: MiniWorld, runs: dict[str, Rows], rules: Rules, tmp_path: Path
) -> None:
    """With the pipeline, as our evaluation calls the agent under the rules of either."""
    sessions = [to_session(row, number, {}, rules) for number, row in enumerate(world.rows)]
    result = generate(
        make_agent(world, world), sessions, Resized(world, rules), PLAIN, tmp_path, rules=rules, progress=False
    )
    official = runs[rules.name]
    assert [turn.to_dict() for turn in result.turns] == [AnsweredTurn(**line).to_dict() for line in official]
    rows = official_rows(official, rules)
    turns = judge_turns(result.turns, Says(), rules=rules)
    np.testing.assert_equal(score(turns, rules).to_dict(), official_scores(rows, rules))
    np.testing.assert_equal(score(select_ego(turns), rules).to_dict(), official_scores(select_ego_rows(rows), rules))
