"""Typed settings of a preset, a TOML file in ``presets/``, under a profile (``agents.profiles.profile``).

A preset names its stages and, in a table of the stage's name, the changes to its defaults (``agents.stage.StageOptions``).
``load_settings`` reads it once. Each field is taken from the last of these that names it: the defaults, the profile's ``[limits]``, the
preset, the preset's ``[models.NAME]`` for the profile's models, its ``[profiles.blind]`` if the profile's chat model does not see, and
then ``[profiles.blind_collection]`` for a collection, its ``[profiles.NAME]`` for the profile, environment variables
(``CRAG_ANSWER__K=3``), ``--set answer.k=3``. A setting of a stage that the preset does not have is refused, wherever it is set.

``extends = "best"`` takes all of another preset, which may extend one itself, by its name or the path of its file, relative to this one.
The tables of the extension come after all tables of its base, those for models and profiles included; ``stages`` replaces the whole list.

``[models.NAME]`` has the values fitted to a model, such as a cut on its scores, wherever a profile has that model as its chat model, in
its image search, as its coarse or fine reranker, or as its matcher (``Profile.model_names``). ``[models."A + B"]`` holds where a profile
has both, and comes after those of one model.
"""

from __future__ import annotations

import logging
import os
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import BaseModel, Field, PrivateAttr, ValidationError, create_model, model_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict
from pydantic_settings import SettingsError as SourceError

from agents.base.named import find_file, is_path
from agents.profiles.profile import (
    MODELS,
    PRESETS,
    PROFILES,
    Limits,
    Profile,
    SettingsError,
    Table,
    load_profile,
    names,
    read_chain,
)

if TYPE_CHECKING:
    from agents.stage import Stage, StageOptions

log = logging.getLogger(__name__)

ENVIRONMENT = "CRAG_"
"""Environment variables of settings begin so; ``__`` takes the place of the dot: ``CRAG_LIMITS__SECONDS_PER_TURN``."""
_OF_VARIABLE = "environment variable "  # how a message begins whose cause is one

VARIABLES = frozenset(
    {
        "CRAG_PRESET",  # of the agent that the evaluator builds (``AgentConfig.from_environment``)
        "CRAG_PROFILE",
        "CRAG_CACHE",  # folder of indices, pictures and pages (``agents.base.cache_folder``)
        "CRAG_WEBSEARCH_CACHE_DIR",  # the organiser's page cache
        "CRAG_CACHE_DIR",  # the organiser's cache of pictures
        "CRAG_API_KEY",  # of ``crag serve``
        "CRAG_GGUF",  # weights of one's own, which the profiles embedded, embedded_batch and laptop read
        "CRAG_MMPROJ",
        "CRAG_FUZZ",  # of the tests
        "CRAG_HOSTILE",
        "CRAG_SOAK",
    }
)
"""Environment variables of this project other than settings."""

NO_VALUE = "null"  # spelling of "no value" in ``--set`` (TOML has no word for it): ``finalise.max_idk=null``

BLIND = "blind"
"""Name of the table of ``[profiles]`` that applies under every profile whose chat model does not see (``Profile.sees``)."""

BLIND_COLLECTION = "blind_collection"
"""Name of the table that comes after it where a collection is searched: its table of photos has the owner's columns."""


class GuardSettings(Table):
    """Protection against retrieved text."""

    injection: bool = Field(
        True,
        description="remove orders to the model from evidence and from text in the photo, and withhold answers "
        "found only in orders; off only to measure its effect",
    )


class TraceSettings(Table):
    """Allowed parts of a trace."""

    queries: bool = Field(
        True,
        description="texts: questions, replies, evidence; without them names of stages, numbers and reasons remain",
    )
    images: bool = Field(
        True,
        description="descriptions of the picture: text in it, boxes, found pictures, entities, and replies and "
        "evidence, which may name them; without it question, answer, stages, numbers and reasons remain",
    )
    requests: bool = Field(
        False,
        description="requests to chat models as they received them, with their pictures, and every text uncut: for training",
    )

    @model_validator(mode="after")
    def _requests_show_both(self) -> Self:
        if self.requests and not (self.queries and self.images):
            raise PydanticCustomError(
                "requests",
                "requests contain questions and pictures: trace.requests needs trace.queries and trace.images",
            )
        return self


class Settings(Table):
    """A preset as it runs under one profile; ``load_settings`` makes it, with a field for the options of each stage."""

    description: str = ""
    stages: tuple[str, ...]  # in their order: modules of ``agents/stages``, or ``package.module:ClassName``
    limits: Limits = Limits()
    guard: GuardSettings = GuardSettings()
    trace: TraceSettings = TraceSettings()
    fetch: bool = Field(
        False, description="fetch pages and pictures missing from the caches; the competition has no network"
    )
    today: date | None = Field(
        None, description="date that prompts name as today's, for repeatable runs; None: the machine's date"
    )
    collection: str = Field(
        "", description="name of the collection that is searched, set by the commands; empty: a split"
    )

    _lacks_gate: bool = PrivateAttr(False)

    @property
    def lacks_gate(self) -> bool:
        """Whether the preset has gates, and none of them was fitted to the profile's models."""
        return self._lacks_gate and getattr(getattr(self, "finalise", None), "gate", None) is None

    @property
    def stage_classes(self) -> dict[str, type[Stage]]:
        """Return the class of each stage by the name of its table, in their order."""
        return {stage.name: stage for stage in map(_class, self.stages)}

    def options(self, stage: type[Stage]) -> StageOptions:
        """Return the options of a stage, or its defaults if the preset does not name it."""
        stage_options: StageOptions = getattr(self, stage.name, None) or stage.Options()
        return stage_options

    def without(self, names: Sequence[str]) -> Settings:
        """Copy these settings without some stages or groups of stages.

        Raises:
            SettingsError: A stage is not part of the preset, or cannot be left out.
        """
        classes = self.stage_classes
        by_name = dict(zip(classes, self.stages, strict=True))
        groups = _groups(classes.values())
        left_out: set[str] = set()
        for name in names:
            stages = [by_name.get(stage, stage) for stage in groups.get(name, (name,))]
            stages = [stage for stage in stages if stage in self.stages]
            if not stages:
                choices = ", ".join([*(by_name[each] for each in classes if classes[each].kind != "decides"), *groups])
                raise SettingsError(f"stage {name!r} is not part of this preset; you can leave out: {choices}")
            left_out.update(stages)
        for name, stage in by_name.items():
            if stage in left_out and classes[name].kind == "decides":
                raise SettingsError(f"stage {name!r} gives the answer and cannot be left out")
        return self.model_copy(update={"stages": tuple(stage for stage in self.stages if stage not in left_out)})


def load_settings(
    preset: str,
    profile: str | Profile,
    folder: Path = PRESETS,
    profiles: Path = PROFILES,
    overrides: Sequence[str] = (),
    *,
    collection: bool = False,
) -> Settings:
    """Return the settings of a preset under a profile.

    Args:
        preset: Name or path of the preset.
        profile: The profile, or its name or path. A name that ``profiles`` lacks only chooses the preset's overlay.
        folder: Folder of the presets.
        profiles: Folder of the profiles.
        overrides: ``KEY=VALUE`` with a dotted key; a later one of the same key wins. The value is TOML. Anything else is text, so
            ``queries.split=none`` needs no quotes; ``null`` is no value.
        collection: Whether a collection is searched.

    Raises:
        SettingsError: The preset does not exist. Or it, the profile or an override is malformed, or names something that does not exist or
            that the preset does not have.
    """
    path = find_file(preset, "preset", folder, SettingsError)
    preset, layers = path.stem, [_Layer.split(name, table) for name, table in read_chain(path, "preset", folder)]
    if isinstance(profile, str) and (is_path(profile) or profile in names(profiles)):
        profile = load_profile(profile, profiles)
    limits, overlays, models = (
        (profile.limits, profile.overlays or (profile.name,), profile.model_names)
        if isinstance(profile, Profile)
        else ({}, (profile,), ())
    )
    if isinstance(profile, Profile) and not profile.sees:
        overlays = (BLIND, *((BLIND_COLLECTION,) if collection else ()), *overlays)
    tables = ({"limits": limits}, *(table for layer in layers for table in layer.select(models, overlays)))
    try:
        settings = settings_from(*tables, overrides=overrides, preset=preset)
    except SettingsError:
        try:
            settings_from(*tables)
        except SettingsError as error:
            if str(error).startswith(_OF_VARIABLE):
                raise
            bases = (
                f", which extends {' and '.join(repr(layer.name) for layer in layers[-2::-1])}," if layers[1:] else ""
            )
            raise SettingsError(f"preset {preset!r}{bases} is malformed: {error}") from error
        raise  # it is an override
    if BLIND in overlays:
        _warn_of_sighted_stages(layers, overlays)
    listed = {name for layer in layers for overlay in layer.profiles.values() for name in _find_stages(overlay)}
    for number, layer in enumerate(layers, start=1):
        layer.check([each.table for each in layers[:number]], settings, listed)
    gates = {key for layer in layers for key, overlay in layer.models.items() if "gate" in overlay.get("finalise", {})}
    settings._lacks_gate = bool(gates) and not any(_split_models(key) <= {*models} for key in gates)
    return settings


@dataclass(frozen=True)
class _Layer:
    """One file of a preset: its own tables, and those for certain profiles and models."""

    name: str
    table: Mapping[str, Any]
    profiles: Mapping[str, Mapping[str, Any]]
    models: Mapping[str, Mapping[str, Any]]

    @classmethod
    def split(cls, name: str, table: dict[str, Any]) -> _Layer:
        """Take the tables for certain profiles and models out of a preset's file.

        Raises:
            SettingsError: The preset is malformed: there is something other than tables.
        """
        profiles, models = (_overlays(table, key, name) for key in ("profiles", "models"))
        return cls(name, table, profiles, models)

    def select(self, models: Collection[str], overlays: Sequence[str]) -> list[Mapping[str, Any]]:
        """Return the tables that apply to a profile, the later one last; those for more models come after those for fewer."""
        fitted = [key for key in self.models if _split_models(key) <= {*models}]
        fitted.sort(key=lambda key: len(_split_models(key)))
        return [self.table, *(self.models[key] for key in fitted), *(self.profiles.get(name, {}) for name in overlays)]

    def check(self, tables: Sequence[Mapping[str, Any]], settings: Settings, listed: Collection[str]) -> None:
        """Refuse tables for stages that the preset does not have, in the file itself or in one for any profile or model.

        Args:
            tables: The file's own tables, after those of the files that it extends.
            settings: Settings made of the preset. Their stages differ from the preset's if an override replaces them.
            listed: Names of the stages of all overlays that list their own.

        Raises:
            SettingsError: A table is for a stage that the preset neither lists nor needs, or for no stage.
        """
        places = {"": self.table}
        for key, overlays in (("profiles", self.profiles), ("models", self.models)):
            places |= {f'{key}."{name}".': overlay for name, overlay in overlays.items()}
        keys = {*Settings.model_fields, *_find_stages(*tables), *settings.stage_classes}
        for place, overlay in places.items():
            if {*overlay} <= keys | ({*listed} if place else set()):
                continue
            fault = f"preset {self.name!r} is malformed: [{place}"
            try:
                whole = settings_from(*tables, overlay)
            except SettingsError as error:
                raise SettingsError(f"{fault.removesuffix('.')}] {error}") from error
            for name in sorted({*overlay} - keys - {*listed} - {*whole.stage_classes}):
                reason = _no_setting(name, whole.stage_classes, self.name)
                raise SettingsError(f"{fault}{name}] changes nothing: {reason}")


def _warn_of_sighted_stages(layers: Sequence[_Layer], overlays: Sequence[str]) -> None:
    """Warn if an extension's list of stages replaces the one that its base has for models that do not see.

    Args:
        layers: The preset's files, that of its first base first.
        overlays: Names of the tables of ``[profiles]`` that apply; the model does not see.
    """
    last = max((number for number, layer in enumerate(layers) if "stages" in layer.table), default=0)
    bases = [layer.name for layer in layers[:last] if "stages" in layer.profiles.get(BLIND, {})]
    listed = any("stages" in layer.profiles.get(name, {}) for layer in layers[last:] for name in overlays)
    if bases and not listed:
        _warn_of_replaced_list(layers[last].name, bases[-1])


@cache
def _warn_of_replaced_list(preset: str, base: str) -> None:
    log.warning(
        "the stages of preset %r replace those that %r has for a chat model that does not see, and this one does not see; list its "
        "stages under [profiles.%s] of %r, or take a profile whose model sees",
        preset,
        base,
        BLIND,
        preset,
    )


def _overlays(table: dict[str, Any], key: str, preset: str) -> Mapping[str, Mapping[str, Any]]:
    """Remove from a preset the tables for certain profiles or models, and return them.

    Raises:
        SettingsError: The preset is malformed: there is something other than tables.
    """
    overlays = table.pop(key, {})
    if not isinstance(overlays, Mapping) or not all(isinstance(overlay, Mapping) for overlay in overlays.values()):
        raise SettingsError(
            f"preset {preset!r} is malformed: {key} has a table for each {key.removesuffix('s')}, and nothing else"
        )
    return overlays


def _split_models(key: str) -> set[str]:
    return set(key.split(MODELS))


def settings_from(*tables: Mapping[str, Any], overrides: Sequence[str] = (), preset: str = "") -> Settings:
    """Merge tables, then the environment, then overrides into settings; the later one wins.

    Args:
        tables: Tables of a preset. Tables for stages outside of ``stages`` are accepted here; ``load_settings`` refuses them.
        overrides: ``KEY=VALUE``; see ``load_settings``.
        preset: Name of the preset, for messages.

    Raises:
        SettingsError: A value is malformed, no stage gives the answer, or an override is for a stage that is not among the stages.
    """
    assigned = [
        parse_assignment(text) for text in overrides
    ]  # first, so that a malformed assignment is reported as one
    schema = _schema(tables, overrides, preset)

    class Sources(schema, BaseSettings):  # type: ignore[valid-type, misc]
        model_config = SettingsConfigDict(env_prefix=ENVIRONMENT, env_nested_delimiter="__")

        @classmethod
        def settings_customise_sources(  # type: ignore[override]  # the library passes them by name
            cls, settings_cls: type[BaseSettings], env_settings: PydanticBaseSettingsSource, **_: Any
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            """Order the sources from the latest to the first, as the library expects them."""
            first = [InitSettingsSource(settings_cls, dict(table)) for table in reversed(assigned)]
            last = [InitSettingsSource(settings_cls, dict(table)) for table in reversed(tables)]
            return (*first, env_settings, *last)

    try:
        settings = _complete(schema.model_validate(dict(Sources())))
    except SourceError as error:
        raise SettingsError(f"{_OF_VARIABLE}{ENVIRONMENT}... is malformed: {error}") from error
    except ValidationError as error:
        listed = _find_stages(*tables, *assigned)
        of_listed = [text for text in overrides if _is_setting(parse_key(text), listed)]
        if len(of_listed) < len(overrides):  # report a missing stage before errors in its options
            _check_overrides(overrides, settings_from(*tables, overrides=of_listed, preset=preset), preset)
        raise SettingsError(_format_validation_error(error, schema, overrides)) from error
    _check_overrides(overrides, settings, preset)
    _check_decision(settings)
    _check_gate(settings)
    return settings


def _check_decision(settings: Settings) -> None:
    """Check that some stage gives the answer: without one every turn would end as "I don't know", as if the model had declined.

    Raises:
        SettingsError: No stage decides.
    """
    if not any(stage.kind == "decides" for stage in settings.stage_classes.values()):
        raise SettingsError(
            'stages: no stage gives the answer; name "finalise" last, or a stage of your own with kind = "decides"'
        )


def _check_gate(settings: Settings) -> None:
    """Check that some stage declares each signal that a fitted gate weighs.

    A signal of a stage that the preset lacks counts as its mean, and so does one with a dot in its name (STAGE.NAME): its stage may have
    been left out. A warning names it.

    Raises:
        SettingsError: No stage declares a signal whose name has no dot.
    """
    from agents.decision.gate import FittedGate
    from agents.stage import stage_class, stage_names

    for stage in settings.stage_classes.values():
        options = settings.options(stage)
        gate = FittedGate(options).gate if isinstance(options, FittedGate.Options) else None
        declared = {kind.name for each in settings.stage_classes.values() for kind in each.signals}
        if gate is None or declared.issuperset(gate.features):
            continue
        signals = declared | {kind.name for name in stage_names() for kind in stage_class(name).signals}
        missing = [name for name in gate.features if name not in declared]
        if unknown := [name for name in missing if name not in signals and "." not in name]:
            raise SettingsError(
                f"{stage.name}.gate: {options.gate} weighs unknown signals: {', '.join(unknown)}; no stage declares them. Correct the "
                "name, declare it among the signals of the stage that records it, or fit the gate again; "
                f"known: {', '.join(sorted(signals))}"
            )
        _warn_of_missing_signals(str(options.gate), tuple(missing))


@cache
def _warn_of_missing_signals(gate: str, names: tuple[str, ...]) -> None:
    log.warning(
        "%s weighs signals that no stage of this preset declares: %s; each counts as its mean unless a stage records it",
        gate,
        ", ".join(names),
    )


def _check_overrides(overrides: Sequence[str], settings: Settings, preset: str = "") -> None:
    """Refuse overrides (``KEY=VALUE``) that change no option of a run.

    Raises:
        SettingsError: An override is for a stage that is not among the stages of the settings.
    """
    stages = settings.stage_classes
    for text in overrides:
        if not _is_setting(parse_key(text), stages):
            raise SettingsError(_no_setting(parse_key(text), stages, preset))


def unknown_variables(settings: Settings, preset: str, profile: Profile) -> list[str]:
    """Return a message for each environment variable that begins with ``CRAG_`` and names nothing under a preset and a profile."""
    variables, stages, messages = {*VARIABLES, *profile.variables}, settings.stage_classes, []
    others = [each.removeprefix(ENVIRONMENT) for each in sorted(variables)]
    for variable in sorted(os.environ):
        key = _parse_variable_key(variable)
        if not key or variable in variables or _is_setting(key, stages):
            continue
        near = [ENVIRONMENT + each.replace(".", "__").upper() for each in _near(key, stages)]
        near = near or [
            ENVIRONMENT + each for each in get_close_matches(variable.upper().removeprefix(ENVIRONMENT), others, 1)
        ]
        messages.append(
            f"environment variable {variable} names no setting{_why(key, stages, preset)}; {_suggest(near)}unset it"
        )
    return messages


def _is_setting(key: str, stages: Collection[str]) -> bool:
    """Return whether a dotted key begins with a setting of every preset, or with one of these stages."""
    return key.partition(".")[0] in {*Settings.model_fields, *stages}


def _near(key: str, stages: Mapping[str, type[Stage]]) -> list[str]:
    """Return the settings that a key may mean: of tables whose names share a word with its own, or are nearly the same."""
    name, _, option = key.partition(".")
    keys = [*Settings.model_fields, *stages]
    alike = [each for each in keys if {*each.split("_")} & {*name.split("_")}]
    suggestions: list[str] = []
    for each in alike or get_close_matches(name, keys, 1):
        options = stages[each].Options.model_fields if each in stages else _fields(Settings, [each])
        near = {option} if option in options else {*get_close_matches(option, options, 2)}
        suggestions += [f"{each}.{one}" for one in options if one in near] or [each]
    return suggestions


def _why(key: str, stages: Collection[str], preset: str) -> str:
    """Return why a key is no setting if it belongs to a stage that the preset lacks; else ""."""
    from agents.stage import stage_names

    name = key.partition(".")[0]
    if name in stages or name not in stage_names():
        return ""
    return f" ({f'preset {preset!r}' if preset else 'the preset'} has no stage {name!r})"


def _no_setting(key: str, stages: Mapping[str, type[Stage]], preset: str = "") -> str:
    """Return the message for a key that begins with no setting of every preset and with none of these stages."""
    choices = ", ".join([*Settings.model_fields, *stages])
    return f"there is no setting {key!r}{_why(key, stages, preset)}; {_suggest(_near(key, stages))}known: {choices}"


def _suggest(near: Sequence[str]) -> str:
    """Return the question "did you mean ...?" and a blank; "" without suggestions."""
    return f"did you mean {' or '.join(map(repr, near[:4]))}? " if near else ""


def _class(stage: str) -> type[Stage]:
    from agents.stage import stage_class  # stages import searches and models: only reading a preset needs them

    return stage_class(stage)


def _groups(stages: Iterable[type[Stage]]) -> dict[str, tuple[str, ...]]:
    from agents.stage import list_groups

    return list_groups(stages)


def _find_stages(*tables: Mapping[str, Any]) -> dict[str, type[Stage]]:
    """Return the class of each stage that the last of some tables with a list of stages names."""
    listed = [stages for table in tables if isinstance(stages := table.get("stages"), Sequence)]
    return {stage.name: stage for name in (listed[-1] if listed else ()) for stage in (_class(str(name)),)}


def _schema(tables: Sequence[Mapping[str, Any]], overrides: Sequence[str], preset: str) -> type[Settings]:
    """Return ``Settings`` with a field for the options of each stage that is listed, or that a table or an override names."""
    listed = _find_stages(*tables, *map(parse_assignment, overrides))
    classes = dict(listed)
    for key in [*(name for table in tables for name in table), *map(parse_key, overrides)]:
        name = key.partition(".")[0]
        if not _is_setting(name, classes):
            try:
                classes[name] = _class(name)
            except SettingsError as error:
                raise SettingsError(_no_setting(key, listed, preset)) from error
    return _extend(tuple(classes[name] for name in sorted(classes)))


@cache
def _extend(stages: tuple[type[Stage], ...]) -> type[Settings]:
    fields: dict[str, Any] = {stage.name: (stage.Options, stage.Options()) for stage in stages}
    return create_model("Settings", __base__=Settings, **fields)


def _complete(settings: Settings) -> Settings:
    """With the stages that others need, each right before the first that needs it."""
    stages: list[str] = []
    for name in settings.stages:
        stage = _class(name)
        stages += [other for other in stage(settings.options(stage)).needs() if other not in settings.stages]
        stages.append(name)
    return settings.model_copy(update={"stages": tuple(stages)}) if len(stages) > len(settings.stages) else settings


def parse_key(override: str) -> str:
    """Return the dotted key of ``KEY=VALUE``."""
    return override.partition("=")[0].strip()


def parse_assignment(text: str) -> dict[str, Any]:
    """Parse ``a.b=1`` into ``{"a": {"b": 1}}``. The value is TOML; a word needs no quotes.

    Raises:
        SettingsError: The text is no assignment.
    """
    key, separator, value = (part.strip() for part in text.partition("="))
    if not separator or not key:
        raise SettingsError(f"{text!r} is no assignment; write KEY=VALUE, such as queries.split=none")
    table: Any = None
    if value != NO_VALUE:
        try:
            table = tomllib.loads(f"value = {value}")["value"]
        except (tomllib.TOMLDecodeError, RecursionError):
            table = value
    for name in reversed(key.split(".")):
        table = {name: table}
    return dict(table)


def _format_validation_error(error: ValidationError, schema: type[Settings], overrides: Sequence[str]) -> str:
    """Format validation errors as one clause each; a clause about an override names that override."""
    clauses = []
    for details in error.errors():
        place = [str(part) for part in details["loc"]]
        own = details["type"] == "value_error"  # of a validator, which says what is wrong with the table
        if isinstance(details["input"], Mapping) and details["input"] and not own and not _fields(schema, place):
            place.append(str(next(iter(details["input"]))))  # a table where a value belongs: a key with too many dots
        key, inside = ".".join(place), ".".join(place[:-1])
        blamed = [text for text in overrides if key.startswith(parse_key(text))]
        variables = [] if blamed else [f"{_OF_VARIABLE}{text}" for text in _find_variables(key)]
        if details["type"] == "extra_forbidden" or place[-1] not in _fields(schema, place[:-1]):
            clauses.append(": ".join([*variables, _unknown(key, _fields(schema, place[:-1]), inside)]))
            continue
        cause, message = (blamed or variables or [key])[-1], details["msg"].removeprefix("Value error, ")
        value = details["input"]
        is_told = cause != key or own or not isinstance(value, str | int | float)  # an assignment has the value in it
        clauses.append(f"{cause}: {message[:1].lower()}{message[1:]}{'' if is_told else f', not {value!r}'}")
    return "; ".join(clauses)


def _find_variables(key: str) -> list[str]:
    """Return the environment variable that sets a dotted key, or the table above it, as ``NAME=VALUE``."""
    prefixes = {".".join(key.split(".")[:number]) for number in range(1, key.count(".") + 2)}
    return [f"{name}={value}" for name, value in sorted(os.environ.items()) if _parse_variable_key(name) in prefixes]


def _parse_variable_key(name: str) -> str:
    """Return the dotted key that an environment variable would set, "" if it is none of ours."""
    own = name.upper().startswith(ENVIRONMENT)
    return name.upper().removeprefix(ENVIRONMENT).replace("__", ".").lower() if own else ""


def _fields(model: type[BaseModel], place: Sequence[str]) -> Mapping[str, Any]:
    """Return the fields of the table at a place in a model, none if there is no table."""
    for name in place:
        field = model.model_fields.get(name)
        inner = field.annotation if field is not None else None
        options = [each for each in (inner, *getattr(inner, "__args__", ())) if isinstance(each, type)]
        tables = [each for each in options if issubclass(each, BaseModel)]
        if not tables:
            return {}
        model = tables[0]
    return model.model_fields


def _unknown(key: str, choices: Iterable[str], inside: str = "") -> str:
    choices = list(dict.fromkeys(choices))
    near = _suggest(get_close_matches(key.rpartition(".")[2], choices, 1))
    return (
        f"there is no setting {key!r}; {near}known{f' in {inside}' if inside else ''}: {', '.join(choices) or 'none'}"
    )
