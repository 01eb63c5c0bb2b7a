"""The judge without a server: whom it asks, what it makes of P(yes), and that its tables say how it agrees."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from agents.asking.prompts import PromptLibrary
from agents.models.base import ChatReply, ChatRequest
from agents.profiles.model_set import ModelSet
from agents.profiles.profile import PROMPTS, Profile
from agents.settings import agent_config
from agents.settings.run_config import RunConfig
from agents.time_limits.deadline import Deadline
from evaluation.files.responses import read_responses
from evaluation.judge.judging import Judge, choose_judge, judge_turns
from evaluation.judge.local_judge import FittedCut, LocalJudge, Tally, YesOrNo, load_cut
from evaluation.judge.rule_judge import SURE, RuleJudge
from evaluation.records import JudgeError, JudgeItem
from evaluation.run.launching import make_yes_or_no
from evaluation.studies import judged_entries, leaderboard
from tests.agent.scripted import ScriptedChat
from tests.evaluation.test_leaderboard import answers, save
from tests.evaluation.worlds import run_command

LABELS = Path(__file__).parents[2] / "mini_crag_mm" / "labelled_answers.jsonl"
TALLY = Tally(answers=40, kappa=0.75, both_right=15, both_wrong=20, right_by_judge=2, right_by_hand=3)


class ScriptedYes(YesOrNo):
    """Chat model that gives each response its probability, and remembers its questions."""

    def __init__(
        self,
        probabilities: Mapping[str, float | None] | None = None,
        *,
        name: str = "a model",
        prompt: str = "p1",
        batch: int = 3,
    ) -> None:
        self.probability_by_response, self.calls = dict(probabilities or {}), list[list[str]]()
        self.digest = prompt
        chat = SimpleNamespace(name=name, chat=self._reply)
        super().__init__("tiny", PromptLibrary(PROMPTS), lambda _: chat, batch)

    @property
    def prompt(self) -> str:
        return self.digest

    def _reply(self, requests: Sequence[ChatRequest], _: Deadline) -> list[ChatReply]:
        self.calls.append([_find_response(request) for request in requests])
        return [_make_reply(self.probability_by_response.get(response, 0.0)) for response in self.calls[-1]]


def _find_response(request: ChatRequest) -> str:
    return request.messages[-1].content.split("\nAnswer: ")[1].split("\n")[0]


def _make_reply(probability: float | None) -> ChatReply:
    if probability is None:
        return ChatReply("It", "length", first_token_probs={"It": 1.0})
    return ChatReply("no", "length", first_token_probs={"yes": probability, "no": 1 - probability})


def make_cut(value: float = 0.6, **changed: str) -> FittedCut:
    names = {"profile": "tiny", "model": "a model", "prompt": "p1", **changed}
    return FittedCut(cut=value, auroc=0.9, labels="labels.jsonl", fitted=TALLY, held_out=TALLY, **names)


def about(response: str, truth: str = "It was built by Ann Smith.", accept: tuple[str, ...] = ()) -> JudgeItem:
    return JudgeItem("Who built this?", truth, response, accept)


def test_the_model_is_asked_only_where_the_rule_is_not_sure() -> None:
    model = ScriptedYes({"Smith, Ann": 0.6, "Bob Jones": 0.59})
    sure = [
        about("it was built by ann smith"),
        about("Bob", truth="I don't know"),
        about("Ann", accept=("Ann",)),
        about("Bob", accept=("Ann",)),
        JudgeItem("How tall is it?", "It is 330 m tall.", "It is 0.33 km tall."),
    ]
    judge = LocalJudge(model, make_cut())
    assert [verdict.correct for verdict in judge.judge_batch(sure)] == [True, False, True, False, True]
    assert model.calls == []
    verdicts = judge.judge_batch([about("Smith, Ann"), sure[0], about("Bob Jones")])
    assert [verdict.correct for verdict in verdicts] == [True, True, False]  # from the cut on
    assert model.calls == [["Smith, Ann", "Bob Jones"]]


def test_what_the_rule_is_sure_of_it_says_in_these_words() -> None:
    """A figure that is missing or another one is no such thing: the figure may be said in a way that the rule cannot read."""
    right = JudgeItem("How tall is it?", "It is 330 m tall.", "330 metres")
    wrong = JudgeItem("How tall is it?", "It is 330 m tall.", "320 metres")
    assert RuleJudge().judge(right).reason in SURE
    assert RuleJudge().judge(wrong).reason not in SURE


def test_neither_yes_nor_no_is_a_failed_judgement() -> None:
    verdict = LocalJudge(ScriptedYes({"odd": None}), make_cut()).judge(about("odd"))
    assert (verdict.correct, verdict.failed) == (False, True)


def test_without_a_cut_of_its_prompt_a_model_is_right_from_one_half_on() -> None:
    for fitted in (None, make_cut(0.9, prompt="p2")):
        judge = LocalJudge(ScriptedYes({"Smith, Ann": 0.5, "Bob": 0.49}), fitted)
        assert [judge.judge(about(response)).correct for response in ("Smith, Ann", "Bob")] == [True, False]
        assert "from P(yes) 0.50 on; never compared with labels" in judge.name


def test_a_cut_of_another_model_is_refused() -> None:
    judge = LocalJudge(ScriptedYes(name="its successor"), make_cut())
    assert judge.judge(about("it was built by ann smith")).correct  # nothing is loaded for what the rule knows
    with pytest.raises(JudgeError, match=r"fitted for a model, and the chat model is its successor"):
        judge.judge(about("Bob"))


def test_turns_are_asked_in_batches_and_keep_their_places() -> None:
    turns = answers(["h"] * 4 + ["m"] + ["h"] * 3)
    model = ScriptedYes(batch=3)
    judge = LocalJudge(model, make_cut())
    assert isinstance(judge, Judge)
    probabilities = {f"answer {n}": 1.0 if n in (1, 6) else 0.0 for n in range(8)}
    model.probability_by_response = dict(probabilities)
    numbered = [
        turn
        if turn.agent_response == "I don't know"
        else type(turn)(**{**turn.to_dict(), "agent_response": f"answer {n}"})
        for n, turn in enumerate(turns)
    ]
    judged_turns = judge_turns(numbered, judge, workers=8)
    assert [len(call) for call in model.calls] == [3, 3, 1]
    assert [turn.verdict[0] for turn in judged_turns] == ["h", "c", "h", "h", "m", "h", "c", "h"]


def scripted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *replies: ChatReply) -> tuple[YesOrNo, ScriptedChat]:
    waiting = list(replies)
    chat = ScriptedChat(lambda _: waiting.pop(0))
    models = ModelSet(Profile(name="scripted", models={}), tmp_path, ready={"chat": chat})
    monkeypatch.setattr(RunConfig, "models", lambda self, registry=None, *, replies=None: models)
    return make_yes_or_no("embedded_batch", tmp_path), chat


def test_p_yes_is_read_from_the_alternatives_of_the_first_token(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    model, chat = scripted(
        monkeypatch,
        tmp_path,
        ChatReply("no", "length", first_token_probs={"no": 0.6, " Yes": 0.15, "yes": 0.15, "It": 0.1}),
        ChatReply("yes", "length"),  # an engine without alternatives
        ChatReply("", "error", error="too long"),
    )
    items = [about("Ann"), about("Bob"), about("Eve")]
    assert model.probabilities(items) == [pytest.approx(0.3 / 0.9), 1.0, None]
    assert chat.batches == [3] and model.batch == 16 and model.name == "scripted"
    request: ChatRequest = chat.requests[0]
    assert (request.max_tokens, request.temperature, request.logprobs) == (1, 0.0, True)
    assert [message.role for message in request.messages][-2:] == ["assistant", "user"]
    for text in ("Who built this?", "It was built by Ann Smith.", "Answer: Ann\n"):
        assert text in request.messages[-1].content


def test_a_changed_prompt_has_another_digest(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = make_yes_or_no("embedded", tmp_path).prompt
    (tmp_path / "judge").mkdir()
    (tmp_path / "judge" / "yes_or_no.j2").write_text("=== user\n{{ query }}\n")
    monkeypatch.setattr(agent_config, "PROMPTS", tmp_path)
    assert make_yes_or_no("embedded", tmp_path).prompt != before


def test_the_judge_is_chosen_by_its_name(tmp_path: Path) -> None:
    calls: list[tuple[str, Path]] = []

    def local(profile: str, cache: Path) -> LocalJudge:
        calls.append((profile, cache))
        return LocalJudge(ScriptedYes(), make_cut())

    for name in ("local", "local:gpu"):
        choose_judge(name, cache=tmp_path, local=local)
    assert calls == [("embedded", tmp_path), ("gpu", tmp_path)]
    with pytest.raises(JudgeError, match="judge there"):
        choose_judge("local", cache=tmp_path)
    assert load_cut("gpu", tmp_path) is None
    (tmp_path / "gpu.json").write_text('{"cut": 7}')
    with pytest.raises(JudgeError, match="no fitted cut"):
        load_cut("gpu", tmp_path)


def test_every_table_of_the_judge_says_how_it_agrees_with_the_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = LocalJudge(ScriptedYes({"something else": 0.1}), make_cut())
    monkeypatch.setattr(judged_entries, "make_local_judge", lambda profile, cache: judge)
    path, out = save(tmp_path / "ours.jsonl", answers(["h", "m"])), tmp_path / "board"
    arguments = (path, "--eval-model", "local:tiny", "--no-progress", "--out", out)
    status, output = run_command(leaderboard.main, *arguments, width=400)
    assert status == 0
    agreement = (
        "on 40 answers labelled by hand kappa 0.75: 15 right and 20 wrong for both, 2 right for the judge alone, 3 for"
    )
    assert agreement in output
    assert agreement in (out / "leaderboard.html").read_text()
    assert agreement in json.loads((out / "leaderboard.json").read_text())["judge"]


def test_the_labelled_answers_can_be_read_and_no_session_is_of_two_splits() -> None:
    turns = read_responses(LABELS)
    rows = [json.loads(line) for line in LABELS.read_text(encoding="utf-8").splitlines()]
    assert len(turns) == len(rows) >= 150
    assert {row["label"] for row in rows} == {"correct", "wrong"}
    sessions = {
        split: {row["session_id"] for row in rows if row["split"] == split} for split in ("validation", "public_test")
    }
    assert sum(map(len, sessions.values())) == len({row["session_id"] for row in rows})
    for split in sessions:  # enough of both for a cut and for its measure
        split_labels = [row["label"] for row in rows if row["split"] == split]
        assert min(split_labels.count("correct"), split_labels.count("wrong")) >= 25
