"""Kinds of search of one's own: named in a profile, opened with options, checked, asked in batches; an error of one is an error."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from agents.base_agent import BaseAgent
from agents.profiles.profile import Profile, SettingsError, load_profile
from agents.search.gateway import SearchGateway
from agents.search.hits import ImageHit, Results, SearchError, WebHit
from agents.search.kinds import open_search
from agents.settings.run_config import RunConfig
from apps import terminal
from evaluation.records import EvaluationError
from evaluation.run.launching import launch_agent, prepare
from evaluation.run.options import RunOptions

RED, BLUE = Image.new("RGB", (64, 48), (220, 20, 20)), Image.new("RGB", (64, 48), (20, 20, 220))
BOOK = {
    "photos": [{"name": "Rufus the Fox", "colour": [200, 30, 30]}, {"name": "Bela the Heron", "colour": [30, 30, 200]}],
    "pages": [
        {"name": "Rufus the Fox", "text": "Rufus the Fox was born in 2019."},
        {"name": "Bela the Heron", "text": "Bela the Heron was born in 2021."},
    ],
}
PHOTO_BOOK = "tests.support.photo_book:PhotoBook"
MODELS = "".join(
    f'[models.{role}]\nkind = "tests.support.quoting_chat:QuotingChat"\n' for role in ("chat", "small_chat")
)
PRESET = 'stages = ["understand", "image_search", "queries", "web_search", "evidence", "answer", "finalise"]'


@pytest.fixture
def book(tmp_path: Path) -> Path:
    path = tmp_path / "book.json"
    path.write_text(json.dumps(BOOK), encoding="utf-8")
    return path


def profile(folder: Path, search: str) -> Profile:
    (folder / "own.toml").write_text(f"{MODELS}[search]\n{search}", encoding="utf-8")
    return load_profile(str(folder / "own.toml"))


def open_kind(folder: Path, search: str, **options: bool) -> Any:
    return open_search(profile(folder, search).search, split="zoo", cache=folder, **options)


def test_a_batch_is_one_call_of_each_searcher(tmp_path: Path, book: Path) -> None:
    search = open_kind(tmp_path, f'kind = "{PHOTO_BOOK}"\nbook = "{book}"')
    gateway = SearchGateway(search)
    red, blue = gateway.search_images([RED, BLUE], 1)
    assert [hit.entities[0].name for results in (red, blue) for hit in results.hits] == [
        "Rufus the Fox",
        "Bela the Heron",
    ]
    pages = gateway.search_web(["Rufus the Fox", "Bela the Heron", "nothing"], 1)
    assert [[hit.page_url for hit in results.hits] for results in pages] == [
        ["https://zoo.example/0"],
        ["https://zoo.example/1"],
        [],
    ]
    assert search.images._searcher.batches == [2] and search.web._searcher.batches == [3]


def test_what_a_run_does_not_search_is_off(tmp_path: Path, book: Path) -> None:
    gateway = SearchGateway(open_kind(tmp_path, f'kind = "{PHOTO_BOOK}"\nbook = "{book}"', web=False))
    assert gateway.image_enabled and not gateway.web_enabled
    assert gateway.search_web(["Rufus"], 1)[0].error == "web search is off"


@pytest.mark.parametrize(
    ("search", "message"),
    [
        ('kind = "embeded"', "search.kind: there is no kind of search 'embeded'; did you mean 'embedded'?"),
        ('kind = "milvus"', "there is no kind of search 'milvus'; known: embedded, organiser"),
        ('kind = "embedded"\nbook = "x"', "search.book: Extra inputs are not permitted"),
        (
            'kind = "embedded"\noptions = { book = "x" }',
            "the organiser's pipeline has no options but those of [search]",
        ),
        ("kind = 3", "search.kind: Input should be a valid string"),
    ],
)
def test_a_profile_names_a_kind_that_there_is(tmp_path: Path, search: str, message: str) -> None:
    with pytest.raises(SettingsError) as raised:
        profile(tmp_path, search)
    assert message.removeprefix("search.kind: ") in str(raised.value)


@pytest.mark.parametrize(
    ("search", "message"),
    [
        ('kind = "tests.support.photo_bock:PhotoBook"', "no module 'tests.support.photo_bock' can be imported"),
        ('kind = "tests.support.photo_book:Book"', "tests.support.photo_book has no Book"),
        (f'kind = "{PHOTO_BOOK}"', "missing a required argument: 'book'; its options are: book, fault"),
        (f'kind = "{PHOTO_BOOK}"\nbook = "x"\npages = 3', "got an unexpected keyword argument 'pages'"),
        (f'kind = "{PHOTO_BOOK}"\nbook = "missing.json"', "cannot be opened: FileNotFoundError"),
        ('kind = "tests.search.test_kinds:BOOK"', "is no class with named parameters"),
        ('kind = "tests.search.test_kinds:Empty"', "cannot be opened: AttributeError"),
    ],
)
def test_what_cannot_be_opened_is_told(tmp_path: Path, search: str, message: str) -> None:
    with pytest.raises(SearchError) as raised:
        open_kind(tmp_path, search)
    assert message in str(raised.value) and "\n" not in str(raised.value)


class Empty:
    """A kind of search without searchers."""


class Fixed:
    """A kind of search whose pages are one value, for every batch."""

    images = None

    def __init__(self, what: str) -> None:
        self.web = self
        self.found: Any = {
            "short": [],
            "none": None,
            "lists": [[], []],
            "pictures": [Results((ImageHit(0, 1.0, "", ()),))] * 2,
            "many": [Results(tuple(WebHit(f"u{n}_chunk_0", 0.5, "", "", f"u{n}") for n in range(9)))] * 2,
        }[what]

    def search(self, queries: Any, k: int, deadline: Any) -> Any:
        return self.found


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("short", "Fixed.search returned 0 results for 1 queries; it has to return a list with one each"),
        ("none", "Fixed.search returned NoneType for 1 queries"),
        ("lists", "Fixed.search returned list for a query; it has to return agents.search.hits.Results"),
        ("pictures", "Fixed.search returned a ImageHit among its hits; they have to be WebHit"),
    ],
)
def test_results_of_another_form_are_errors(tmp_path: Path, what: str, message: str) -> None:
    gateway = SearchGateway(open_kind(tmp_path, f'kind = "tests.search.test_kinds:Fixed"\nwhat = "{what}"'))
    assert not gateway.image_enabled
    for results in gateway.search_web(["a", "b"], 3):
        assert results.error is not None and not results.hits
        assert results.error.removeprefix("SearchError: ").startswith(message) or "for 1 queries" in results.error


def test_gates_go_by_the_encoder_that_a_search_names(tmp_path: Path) -> None:
    assert profile(tmp_path, f'kind = "{PHOTO_BOOK}"\nbook = "x"').gate_models[-1] == PHOTO_BOOK
    named = profile(tmp_path, f'kind = "{PHOTO_BOOK}"\nbook = "x"\nimage_model = "efficientnet-lite2"')
    assert named.gate_models[-1] == "efficientnet-lite2"


def test_a_profile_is_the_same_after_a_round_trip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRAG_BOOK", "my.json")
    own = profile(tmp_path, f'kind = "{PHOTO_BOOK}"\nbook = "${{CRAG_BOOK:-other.json}}"')
    assert own.search.options == {"book": "my.json"} and own.variables == ("CRAG_BOOK",)
    assert Profile.model_validate_json(own.model_dump_json()) == own


def ask(folder: Path, book: Path, question: str, capsys: pytest.CaptureFixture[str], more: str = "") -> dict[str, Any]:
    """What ``crag ask`` prints for programs, under the search of the book."""
    profile(folder, f'kind = "{PHOTO_BOOK}"\nbook = "{book}"\n{more}')
    (folder / "plain.toml").write_text(PRESET, encoding="utf-8")
    RED.save(folder / "photo.png")
    places = ["--preset", str(folder / "plain.toml"), "--profile", str(folder / "own.toml"), "--cache", str(folder)]
    terminal.main([str(folder / "photo.png"), question, "--split", "zoo", "--json", *places])
    fields: dict[str, Any] = json.loads(capsys.readouterr().out)
    return fields


def test_crag_ask_answers_over_it(tmp_path: Path, book: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fields = ask(tmp_path, book, "When was this animal born?", capsys)
    assert (fields["entity"], fields["answer"]) == ("Rufus the Fox", "Rufus the Fox was born in 2019.")
    assert fields["sources"][0]["url"] == "https://zoo.example/0" and fields["cause"] is None


def test_its_error_is_no_abstention(tmp_path: Path, book: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fields = ask(tmp_path, book, "When was this animal born?", capsys, 'fault = "the catalogue is closed"')
    assert fields["cause"] == "search" and "the catalogue is closed" in fields["error"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--agent", "tests.search.test_kinds:Other"], "--agent tests.search.test_kinds:Other takes the organiser's"),
        (["--calls", "research-release"], "--calls research-release takes the organiser's pipeline, and profile 'own'"),
    ],
)
def test_what_takes_the_pipeline_itself_is_refused(
    tmp_path: Path, book: Path, options: list[str], message: str
) -> None:
    profile(tmp_path, f'kind = "{PHOTO_BOOK}"\nbook = "{book}"')
    run = RunOptions.parse(
        ["--preset", "vlm_only", "--profile", str(tmp_path / "own.toml"), "--dataset-type", "both", *options]
    )
    with pytest.raises(EvaluationError, match=re.escape(message)):
        launch_agent(run, prepare(run)[0])


class Other(BaseAgent):
    """An agent that is not derived from ``CragAgent``."""

    def batch_generate_response(self, queries: Any, images: Any, message_histories: Any = None, **kwargs: Any) -> Any:
        return [""] * len(queries)

    def get_batch_size(self) -> int:
        return 1


def test_the_configuration_opens_it(tmp_path: Path, book: Path) -> None:
    profile(tmp_path, f'kind = "{PHOTO_BOOK}"\nbook = "{book}"')
    config = RunConfig.of_profile(str(tmp_path / "own.toml"), cache=tmp_path)
    assert config.unreachable(split="zoo", models=False) is None and config.splits() == []
    search = config.pipeline(split="zoo")
    assert (search.picture_folder, search.page_folder) == (tmp_path / "image_cache", config.page_folder)
