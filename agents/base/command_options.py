"""Options of a command as one frozen model, of which its command line, its help, its defaults and its checks are made.

    class AskOptions(AgentOptions):
        photo: Annotated[Path, Flag(positional=True)] = Field(description="a picture")
        set: Annotated[tuple[str, ...], Flag(metavar="KEY=VALUE", repeated=True)] = Field((), description="replace a setting")
        port: int = Field(8000, ge=1, description="port to listen on")

    options = AskOptions.parse(arguments, description="Ask an agent about a photo.")

A new option is one field. Its name gives the flag (``--port``), its description the help; its type says how it is written:

- ``bool``: a flag without value, False unless it is given
- ``Literal``: one of these values
- ``tuple[X, ...]``: several values after one flag, or with ``Flag(repeated=True)`` one after each of several flags
- ``Json[X]``: JSON; any other type: whatever pydantic reads from a text, with ``Field(ge=1)`` or a validator where more has to hold

A field without default has to be given. Options that several commands have are base classes, each with the ``group`` of the help that its
own fields stand in. Flags may stand between words without one. A value is taken from the command line, else from the field's environment
variable, else from its default. What is wrong is told in one line, and the command ends with status 2. Every command has ``--verbose``,
which ``parse`` sees to.
"""

from __future__ import annotations

import argparse  # noqa: TID251 - the one module that reads command lines
import inspect
import json
import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, ClassVar, Literal, NoReturn, Self, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

from agents.base.files import one_line
from agents.base.printing import log_to_stderr, without_escapes
from agents.base.secrets import keep_out_of_logs

_called: ContextVar[str] = ContextVar("called", default="")


@contextmanager
def called(program: str) -> Iterator[None]:
    """Within it commands call themselves so in help and errors, such as ``crag ask``."""
    token = _called.set(program)
    try:
        yield
    finally:
        _called.reset(token)


@dataclass(frozen=True)
class Flag:
    """Form of an option on the command line, in addition to its field."""

    names: tuple[str, ...] = ()  # in place of "--name-of-the-field"
    metavar: str | None = None  # placeholder of its value in the help
    positional: bool = False  # written without a flag; with ``names`` it may be written either way
    repeated: bool = False  # of a tuple: each value has a flag of its own
    bare: object = None  # its value where the flag has none; None: it takes a value
    choices: tuple[str, ...] = ()  # in place of those of its type
    variable: str = ""  # environment variable to read where it is not given
    suggested: tuple[str, ...] = ()  # values for a shell to complete, where others are allowed as well


class _Parser(argparse.ArgumentParser):
    """Argument parser that reports an error in one line, without the usage."""

    def _print_message(self, message: str, file: Any = None) -> None:
        super()._print_message(without_escapes(message), file)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {one_line(message)} (--help lists the options)\n")


class Options(BaseModel):
    """Base of the options of every command."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    group: ClassVar[str] = ""  # heading of the fields that a class defines itself; not inherited

    verbose: Annotated[bool, Flag(names=("-v", "--verbose"))] = Field(
        False, description="log each step to standard error"
    )

    @classmethod
    def parse(
        cls,
        arguments: Sequence[str] | None = None,
        *,
        prog: str | None = None,  # None: ``python -m`` and the module of the class
        description: str | None = None,  # None: the docstring of the class
        epilog: str | None = None,
    ) -> Self:
        """Parse a command line, by default that of the process.

        If the command line is wrong, the process ends with status 2 and one line that says why.
        """
        formatter = argparse.RawDescriptionHelpFormatter
        parser = _Parser(
            _called.get() or prog or _program(cls), None, description or cls.__doc__, epilog, formatter_class=formatter
        )
        flags = _add_all(parser, cls)
        variables = {name: _flag(field).variable for name, field in cls.model_fields.items()}
        environment = {name: value for name, variable in variables.items() if (value := os.environ.get(variable))}
        command_line = vars(parser.parse_intermixed_args(arguments))
        try:
            options = cls.model_validate(environment | command_line)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            message = first["msg"].removeprefix("Value error, ")
            if not first["loc"]:
                parser.error(message)
            name = str(first["loc"][0])
            if first["type"] != "value_error":
                message = f"{message}, not {first['input']!r}"
            parser.error(f"{flags[name] if name in command_line else variables[name]}: {message}")
        if options.verbose:  # before the command sets up its own logging, which then changes nothing
            keep_out_of_logs()
            log_to_stderr(logging.INFO)
        return options


def completion(shell: str, program: str, commands: Mapping[str, tuple[type[Options], str]]) -> str:
    """Generate the script with which a shell completes a program's commands.

    Args:
        shell: bash, zsh or tcsh.
        program: Name of the program.
        commands: The options and a line of help of each command, by its name.

    Raises:
        ImportError: shtab is not installed.
    """
    import shtab

    parser = argparse.ArgumentParser(program)
    below = parser.add_subparsers()
    for name, (options, help_line) in commands.items():
        command = below.add_parser(name, help=help_line)
        _add_all(command, options)
        for action in command._actions:
            field = options.model_fields.get(action.dest)
            if field is None:
                continue
            if suggested := _flag(field).suggested:
                action.choices = suggested  # this parser reads nothing
            elif _inspect_value(field)[0] is Path:
                action.complete = shtab.FILE  # type: ignore[attr-defined]  # where shtab looks for it
    return str(shtab.complete(parser, shell))


def _add_all(parser: argparse.ArgumentParser, options: type[Options]) -> dict[str, str]:
    """Add the options of a class, in their groups; returns how each is called in messages."""
    groups: dict[str, Any] = {"": parser}
    flags = {}
    for name, heading in _map_groups(options).items():
        if heading not in groups:
            groups[heading] = parser.add_argument_group(heading)
        flags[name] = _add(groups[heading], name, options.model_fields[name])
    return flags


def _program(options: type[Options]) -> str:
    spec = sys.modules[options.__module__].__spec__  # knows the module's name also where that is run as __main__
    return f"python -m {(spec.name if spec else options.__module__).removesuffix('.__main__')}"


def _map_groups(options: type[Options]) -> dict[str, str]:
    """Map the fields to their groups, those of the base classes first, from left to right."""
    groups: dict[str, str] = {}
    for base in options.__bases__:
        if issubclass(base, Options):
            groups = {**groups, **_map_groups(base), **groups}
    heading = vars(options).get("group", "")
    own = {name: heading for name in inspect.get_annotations(options) if name in options.model_fields}
    return {**groups, **own, **groups}


def _flag(field: FieldInfo) -> Flag:
    return next((each for each in field.metadata if isinstance(each, Flag)), Flag())


def _add(group: Any, name: str, field: FieldInfo) -> str:
    """Add an option to a parser or to a group of it; returns how it is called in messages."""
    flag, (kind, several) = _flag(field), _inspect_value(field)
    how: dict[str, Any] = {"help": _help(field, flag), "default": argparse.SUPPRESS}
    if kind is bool:
        how["action"] = "store_true"
    else:
        how["metavar"] = flag.metavar
        if choices := flag.choices or (get_args(kind) if get_origin(kind) is Literal else ()):
            values = {str(choice): choice for choice in choices}
            how |= {"choices": choices, "type": lambda text: values.get(text, text)}
        if flag.bare is not None:
            how |= {"nargs": "?", "const": flag.bare}
        elif flag.repeated:
            how["action"] = "append"
        elif several:
            how["nargs"] = "+"
    if flag.positional:
        optional = {} if field.is_required() or several else {"nargs": "?"}
        group.add_argument(name, **how, **optional)
        if not flag.names:
            return f"argument {flag.metavar or name}"
        how["help"] = "the same"
    names = flag.names or (f"--{name.replace('_', '-')}",)
    group.add_argument(*names, dest=name, required=field.is_required() and not flag.positional, **how)
    return f"argument {names[-1]}"


def _inspect_value(field: FieldInfo) -> tuple[Any, bool]:
    """Return the type of a field's value, and whether the field takes several values."""
    kind = _without_none(field.annotation)
    if get_origin(kind) is tuple and get_args(kind)[-1] is Ellipsis:
        return get_args(kind)[0], True
    return kind, False


def _without_none(kind: Any) -> Any:
    return next(each for each in get_args(kind) if each is not NoneType) if NoneType in get_args(kind) else kind


def _help(field: FieldInfo, flag: Flag) -> str:
    default = None if field.is_required() else field.get_default(call_default_factory=True)
    if default is None or default is False or default in ((), ""):
        default_text = ""
    elif isinstance(default, dict):
        default_text = json.dumps(default)
    elif isinstance(default, Path) and default.is_relative_to(Path.cwd()):
        default_text = str(default.relative_to(Path.cwd()))
    else:
        default_text = " ".join(map(str, default)) if isinstance(default, tuple) else str(default)
    default_text = ", else ".join(filter(None, (flag.variable and f"${flag.variable}", default_text)))
    text = f"{field.description} (default: {default_text})" if default_text else field.description or ""
    return text.replace("%", "%%")
