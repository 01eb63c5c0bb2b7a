"""Options of commands as models: every way of writing one, where values come from, and what is told of wrong ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BeforeValidator, Field, Json, ValidationError, model_validator

from agents.base.command_options import Flag, Options

BARE = Path("bare")


def _pair(text: str) -> tuple[int, int]:
    first, _, second = text.partition("x")
    if not second:
        raise ValueError(f"{text!r}; write AxB")
    return int(first), int(second)


class Shared(Options):
    group = "what is shared"

    cache: Annotated[Path, Flag(variable="TEST_COMMAND_CACHE")] = Field(Path(".cache"), description="a folder")
    workers: int = Field(8, ge=1, description="100% of them")


class Second(Options):
    group = "the second group"

    quiet: Annotated[bool, Flag(names=("--no_progress", "--no-progress"))] = Field(False, description="no bars")


class Everything(Shared, Second):
    """What the command does."""

    photo: Annotated[Path, Flag(positional=True)] = Field(description="a picture")
    question: Annotated[str | None, Flag(positional=True, metavar="QUESTION")] = Field(None, description="optional")
    name: str = Field(description="has to be given")
    kind: Literal["one", "two"] = Field("one", description="one of two")
    task: Literal[1, 2] | None = Field(None, description="a number of two")
    dtype: Annotated[str, Flag(choices=("auto", "float16"))] = Field("auto", description="listed elsewhere")
    runs: Annotated[tuple[Path, ...], Flag(metavar="RUN")] = Field((), description="several")
    parts: tuple[Literal["a", "b"], ...] = Field(("a", "b"), description="several of two")
    set: Annotated[tuple[str, ...], Flag(metavar="KEY=VALUE", repeated=True)] = Field((), description="repeated")
    encoder: Annotated[Json[dict[str, Any]], Flag(metavar="JSON")] = Field({"kind": "x"}, description="a specification")
    replies: Annotated[Path | None, Flag(bare=BARE, metavar="DIR")] = Field(
        None, description="with or without a folder"
    )
    size: Annotated[tuple[int, int] | None, BeforeValidator(_pair), Flag(metavar="AxB")] = Field(
        None, description="two numbers in one word"
    )
    workers: int = Field(4, ge=1, description="another default of a shared option")
    first: int = Field(0, description="no default is lost")

    @model_validator(mode="after")
    def _fits(self) -> Everything:
        if self.quiet and self.task:
            raise ValueError("--no-progress goes without --task")
        return self


NEEDED = ("--name", "n", "photo.jpg")


def read(*arguments: str) -> Everything:
    return Everything.parse([*NEEDED, *arguments])


def read_error(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line, after the usage, of a wrong command line."""
    with pytest.raises(SystemExit) as stopped:
        Everything.parse(arguments)
    assert stopped.value.code == 2
    last = capsys.readouterr().err.rstrip("\n").split("\n")[-1]
    assert ": error: " in last
    return last.partition(": error: ")[2]


def test_defaults_hold_where_nothing_is_given() -> None:
    options = read()
    assert (options.photo, options.name, options.question) == (Path("photo.jpg"), "n", None)
    assert (options.cache, options.workers, options.quiet) == (Path(".cache"), 4, False)
    assert (options.set, options.parts, options.encoder) == ((), ("a", "b"), {"kind": "x"})


@pytest.mark.parametrize(
    ("arguments", "field", "value"),
    [
        (["How tall?"], "question", "How tall?"),
        (["--kind", "two"], "kind", "two"),
        (["--task", "2"], "task", 2),
        (["--dtype", "float16"], "dtype", "float16"),
        (["--runs", "a", "b,c"], "runs", (Path("a"), Path("b,c"))),
        (["--parts", "b"], "parts", ("b",)),
        (["--set", "a=1", "--set", "queries.names=[1,2]"], "set", ("a=1", "queries.names=[1,2]")),
        (["--encoder", '{"kind": "clip", "size": [1, 2]}'], "encoder", {"kind": "clip", "size": [1, 2]}),
        (["--replies"], "replies", BARE),
        (["--replies", "mine"], "replies", Path("mine")),
        (["--size", "3x4"], "size", (3, 4)),
        (["--no_progress"], "quiet", True),
        (["--no-progress"], "quiet", True),
        (["--workers=2"], "workers", 2),
    ],
)
def test_a_value_is_read_as_its_type_says(arguments: list[str], field: str, value: object) -> None:
    assert getattr(read(*arguments), field) == value


@pytest.mark.parametrize(
    "arguments",
    [
        ["--name", "n", "photo.jpg", "--kind", "two", "How tall?"],
        ["photo.jpg", "--name", "n", "How tall?", "--kind", "two"],
        ["--kind=two", "photo.jpg", "--no-progress", "How tall?", "--name", "n"],
        ["photo.jpg", "--name", "n", "--kind", "two", "--", "How tall?"],
    ],
)
def test_options_may_stand_between_the_words(arguments: list[str]) -> None:
    options = Everything.parse(arguments)
    assert (options.photo, options.question, options.kind) == (Path("photo.jpg"), "How tall?", "two")


def test_the_command_line_wins_over_the_environment_and_that_over_the_default(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TEST_COMMAND_CACHE", "/env")
    monkeypatch.setenv("NAME", "not asked for")
    assert read().cache == Path("/env")
    assert read("--cache", "/given").cache == Path("/given")
    monkeypatch.setenv("TEST_COMMAND_CACHE", "")
    assert read().cache == Path(".cache")

    class Port(Options):
        port: Annotated[int, Flag(variable="TEST_COMMAND_PORT")] = Field(1, description="a port")

    monkeypatch.setenv("TEST_COMMAND_PORT", "high")
    with pytest.raises(SystemExit):
        Port.parse([])
    assert "error: TEST_COMMAND_PORT: " in capsys.readouterr().err
    assert Port.parse(["--port", "7"]).port == 7


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["photo.jpg"], "required: --name"),
        (["--name", "n"], "required: photo"),
        ([*NEEDED, "--workers", "0"], "argument --workers: Input should be greater than or equal to 1, not '0'"),
        ([*NEEDED, "--workers", "many"], "argument --workers: Input should be a valid integer"),
        ([*NEEDED, "--kind", "three"], "argument --kind: invalid choice: 'three' (choose from"),
        ([*NEEDED, "--task", "3"], "argument --task: invalid choice: '3' (choose from"),
        ([*NEEDED, "--parts", "a", "c"], "argument --parts: invalid choice: 'c'"),
        ([*NEEDED, "--encoder", "{"], "argument --encoder: Invalid JSON"),
        ([*NEEDED, "--size", "3"], "argument --size: '3'; write AxB"),
        ([*NEEDED, "--no-progress", "--task", "1"], "--no-progress goes without --task"),
        ([*NEEDED, "--unheard"], "unrecognized arguments: --unheard"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in read_error(capsys, *arguments)


def test_the_help_has_every_option_in_its_group_with_its_default(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        Everything.parse(["--help"], epilog="examples:\n  one line\n  another")
    assert stopped.value.code == 0
    text = capsys.readouterr().out
    shared, second = text.index("what is shared:"), text.index("the second group:")
    assert text.startswith("usage: python -m tests.base.test_command_options ")
    assert "What the command does." in text and text.endswith("examples:\n  one line\n  another\n")
    assert shared < text.index("--cache CACHE", shared) < text.index("--workers WORKERS", shared) < second
    assert second < text.index("--no_progress, --no-progress", second)
    words = " ".join(text.split())
    for phrase in (
        "a folder (default: $TEST_COMMAND_CACHE, else .cache)",
        "another default of a shared option (default: 4)",
        "several of two (default: a b)",
        'a specification (default: {"kind": "x"})',
        "no bars",
        "no default is lost (default: 0)",
        "--replies [DIR]",
        "{one,two}",
        "RUN [RUN ...]",
    ):
        assert phrase in words
    assert "None" not in text
    descriptions = [field.description for field in Everything.model_fields.values()]
    assert all(description and description in words for description in descriptions)


def test_a_percent_sign_of_a_description_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        Shared.parse(["--help"])
    assert "100% of them (default: 8)" in capsys.readouterr().out


def test_options_can_be_made_without_a_command_line_and_not_be_changed() -> None:
    options = Shared(workers=3)
    assert (options.workers, options.cache) == (3, Path(".cache"))
    with pytest.raises(ValidationError):
        options.workers = 4  # type: ignore[misc]
    with pytest.raises(ValidationError):
        Shared(wokers=3)  # type: ignore[call-arg]
