"""The code of docs/extending.md, run as the page says."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agents.models.base import ChatReply
from agents.models.registry import KINDS, ModelRegistry
from agents.profiles.profile import PROFILES, ROOT, SettingsError, load_profile
from agents.settings.presets import load_settings
from agents.settings.stage_needs import list_roles
from agents.stages import __main__ as stages
from agents.turn import IDK, Candidate, Turn
from tests.agent.scripted import ScriptedChat, build_pipeline, context, turn

PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
PROFILE = re.findall(r"^```toml\n(extends = [^`]*?\[models\.reranker\].*?)^```", PAGE, re.MULTILINE | re.DOTALL)[0]
RULE = """
from agents.decision.rule import Rule, RuleContext, RuleOptions
from agents.turn import Turn


class Brevity(Rule):
    class Options(RuleOptions):
        max_words: int

    options: Options

    def reason(self, turn: Turn, context: RuleContext) -> str | None:
        words = len(context.candidate.text.split())
        return f"the answer has {words} words" if words > self.options.max_words else None
"""
FILES = dict(re.findall(r"^`(\S+)` \(new\)[^\n]*\n```\w+\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))


def run_code(source: str, **names: Any) -> dict[str, Any]:
    """The names that a block of the page defines."""
    space: dict[str, Any] = {"__name__": "extending", **names}
    exec(compile(source, "docs/extending.md", "exec"), space)
    return space


@pytest.fixture
def shorten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The page's stage and prompt, in a package outside of this project, named in a preset: turns, chat -> the turns."""
    package = tmp_path / f"outside_{tmp_path.name}"
    package.mkdir()
    code = FILES["agents/stages/shorten.py"].replace('"shorten"', 'str(Path(__file__).with_name("shorten"))')
    (package / "shorten.py").write_text(f"from pathlib import Path\n{code}", encoding="utf-8")
    (package / "shorten.j2").write_text(FILES["prompts/shorten.j2"], encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own.toml").write_text(
        f'stages = ["{package.name}.shorten:Shorten", "finalise"]\n[shorten]\nmax_words = 12\n', encoding="utf-8"
    )

    def run(turns: list[Turn], chat: ScriptedChat, **changes: Any) -> list[Turn]:
        parts = context(load_settings("own", "embedded", tmp_path, **changes), chat=chat)
        assert list_roles(parts.settings, parts.prompts) == ("chat",)
        return build_pipeline(parts).run(turns, parts.deadline)

    return run


def test_the_stage_asks_once_and_only_about_long_answers(shorten: Any) -> None:
    turns = [
        turn("How tall?", candidate=Candidate("so " * 12 + "tall", None)),
        turn("Who?", candidate=Candidate("so " * 11 + "many", None)),
        turn("Where?"),
    ]
    chat = ScriptedChat(lambda _: "330 m")
    long, short, none = shorten(turns, chat)
    assert chat.batches == [1]
    assert "at most 12 words" in chat.requests[0].messages[0].content
    assert long.answer == "330 m"
    assert short.answer.endswith("many")
    assert none.candidate is None and none.error is None
    assert [record.stage for record in long.records] == ["shorten", "finalise"]


def test_its_settings_are_changed_like_any_other_and_it_can_be_left_out(shorten: Any, tmp_path: Path) -> None:
    chat = ScriptedChat(lambda _: "330 m")
    shorten([turn("Who?", candidate=Candidate("so " * 11 + "many", None))], chat, overrides=["shorten.max_words=8"])
    assert "at most 8 words" in chat.requests[0].messages[0].content
    assert load_settings("own", "embedded", tmp_path).without(["shorten"]).stages == ("finalise",)
    with pytest.raises(SettingsError, match=r"no setting 'shorten\.words'.*known in shorten: max_words"):
        load_settings("own", "embedded", tmp_path, overrides=["shorten.words=8"])


def test_a_long_answer_stays_where_the_model_fails(shorten: Any) -> None:
    long = turn("How tall?", candidate=Candidate("so " * 12 + "tall", None))
    [long] = shorten([long], ScriptedChat(lambda _: ChatReply("", "error", error="out of memory")))
    assert long.candidate is not None and long.candidate.text.endswith("tall")
    [exchange] = long.records[0].exchanges
    assert exchange.error == "out of memory"


def test_the_table_of_stages_is_current(tmp_path: Path) -> None:
    page = tmp_path / "stages.md"
    page.write_text(stages.PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    assert stages.main(["--write"], page) == 0
    assert page.read_text() == stages.PAGE.read_text(), "python -m agents.stages --write"


def test_the_model_is_loaded_as_the_profile_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(PROFILES, tmp_path, dirs_exist_ok=True)
    (tmp_path / "overlap.toml").write_text(PROFILE, encoding="utf-8")
    profile = load_profile("overlap", tmp_path)
    told = tmp_path / "told.toml"
    told.write_text('sees = false\n[models.chat]\nkind = "own.module:Chat"\n')
    like, embedded, other = (load_settings("best", each) for each in (profile, "embedded", load_profile(str(told))))
    assert like.answer.k == embedded.answer.k != other.answer.k  # type: ignore[attr-defined]
    reranker_class = run_code(FILES["agents/models/rerankers/word_overlap.py"])["WordOverlapReranker"]
    line = re.search(r'`"(word-overlap)": "agents\.models\.rerankers\.word_overlap:(\w+)",`', PAGE)
    assert line is not None and line[2] == reranker_class.__name__
    monkeypatch.setitem(
        sys.modules, "agents.models.rerankers.word_overlap", SimpleNamespace(WordOverlapReranker=reranker_class)
    )
    monkeypatch.setitem(KINDS, line[1], f"agents.models.rerankers.word_overlap:{line[2]}")
    reranker = ModelRegistry(tmp_path).load(profile.models["reranker"])
    # Of "which tower is high" the words of four letters are which, tower and high; the passage holds one.
    assert reranker.score([("which tower is high", "is a tower"), ("is it", "it is")]).tolist() == pytest.approx(
        [1 / 3, 0]
    )


def test_the_preset_loads_with_its_overlay(tmp_path: Path) -> None:
    (tmp_path / "image_rag.toml").write_text(FILES["presets/image_rag.toml"], encoding="utf-8")
    plain, embedded = (load_settings(str(tmp_path / "image_rag"), profile) for profile in ("gpu", "embedded"))
    assert plain.stages[-1] == "finalise" and plain.rerank.k == embedded.rerank.k == 3
    assert (plain.rerank.threshold, embedded.rerank.threshold) == (0.0, 0.2)


def test_the_places_that_the_page_names_exist() -> None:
    new = {*FILES, "profiles/overlap.toml", "tests/agent/test_shorten.py"}
    named = set(re.findall(r"`((?:agents|presets|profiles|prompts|tests|docs|lab)/[\w/]+\.\w+)`", PAGE)) - new
    assert len(named) > 5
    assert [path for path in sorted(named) if not (ROOT / path).is_file()] == []
    for path, name in (
        ("agents/stage.py", "when_short"),
        ("agents/stage.py", "picture_notes"),
    ):
        assert name in PAGE and name in (ROOT / path).read_text(encoding="utf-8"), (path, name)


@pytest.fixture
def brevity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the rule that the page speaks of, in a module outside of this project, and a preset that names it."""
    module = f"brevity_{tmp_path.name}"
    (tmp_path / f"{module}.py").write_text(RULE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own.toml").write_text(
        f'stages = ["finalise"]\n[finalise.rules.brevity]\nrule = "{module}:Brevity"\nmax_words = 12\n',
        encoding="utf-8",
    )
    return tmp_path


@pytest.mark.parametrize(
    ("overrides", "words", "reason"),
    [
        ([], 12, None),
        ([], 13, "the answer has 13 words"),
        (["finalise.rules.brevity.max_words=8"], 9, "the answer has 9 words"),
        (["finalise.rules.brevity=null"], 13, None),
        (["finalise.max_idk=0.1"], 13, "the answer has 13 words"),  # fitted rules come after it
        (["finalise.abstain_real_time=true"], 13, "the question is about the present moment"),  # others before
    ],
)
def test_a_rule_from_outside_withholds_an_answer_and_says_why(
    brevity: Path, overrides: list[str], words: int, reason: str | None
) -> None:
    dialog_turn = turn("How tall?", candidate=Candidate(" ".join(["so"] * words), None, idk=0.5), real_time=True)
    parts = context(load_settings("own", "embedded", brevity, overrides=overrides))
    [dialog_turn] = build_pipeline(parts).run([dialog_turn], parts.deadline)
    decision = dialog_turn.records[-1].decision
    assert decision is not None and dialog_turn.error is None
    assert (decision.ruled_out, decision.reason, decision.given) == (reason, reason, reason is None)
    assert (dialog_turn.answer == IDK) == (reason is not None)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("finalise.rules.brevity.max_words=few", r"finalise\.rules.*brevity: max_words: .*integer; known: max_words"),
        ("finalise.rules.brevity.least=3", r"finalise\.rules.*brevity: least: .*known: max_words"),
        ("finalise.rules.brevity.rule=max_idk", r"there is no rule 'max_idk'; or write package\.module:ClassName"),
        ("finalise.rules.brevity.rule=agents.turn:Turn", r"'agents\.turn:Turn' is no class derived from .*Rule"),
        ("finalise.rules.brevity=3", r"finalise\.rules.*brevity is no rule; write a table with rule = "),
        ("finalise.rules=3", r"finalise\.rules"),
    ],
)
def test_a_rule_that_cannot_decide_is_refused_before_anything_runs(brevity: Path, override: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message) as error:
        load_settings("own", "embedded", brevity, overrides=[override])
    assert "\n" not in str(error.value)
