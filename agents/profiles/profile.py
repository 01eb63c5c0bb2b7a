"""Profiles: the model of each role, and limits of time and length for a machine; TOML files in ``profiles/``.

``extends = "embedded"`` takes the models, the search and the limits of another profile, which may extend one itself, by its name or the
path of its file, relative to this one. A ``[models.ROLE]`` replaces that role's table; a field of ``[limits]`` replaces that field alone.
``same_machine = true`` also takes the base's ``[beside.ROLES.ROLE]`` and the tables that presets have for it, ``[profiles.NAME]``.

``[beside.coarse_reranker.chat]`` has options of the chat model under every preset that loads the coarse reranker too, such as a smaller
share of the GPU's memory; ``[beside."detector + matcher".chat]`` under those that load both.

``sees = false`` says that the chat model does not see pictures; the default follows from its kind (``Profile.sees``).

``boxes`` of ``[models.chat]`` is the form in which that model gives boxes of things (``agents.base.box_forms``).

``revision`` beside a ``path`` is the commit to load (``agents.base.revisions``).

A value of a model's table may be ``${CRAG_NAME:-DEFAULT}``: that of the environment variable, or the default where it is not set.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import PydanticCustomError

from agents.base.box_forms import BOX_FORMS, BoxForm
from agents.base.data_folder import ROOT as ROOT
from agents.base.data_folder import data_path
from agents.base.files import first_fault, format_os_error, one_line, read_toml
from agents.base.named import find_file, look_up
from agents.base.revisions import MAIN, split_revision
from agents.models.weights import GGUF_VARIABLE, QWEN_CODER

PRESETS = data_path("presets")
PROFILES = data_path("profiles")
PROMPTS = data_path("prompts")

MODELS = " + "
"""Separates names of models, or roles, in tables for several: a preset's ``[models."A + B"]``, a profile's ``[beside."A + B"]``."""

_KEY = "OPENAI_API_KEY"  # variable of a server's key unless the profile names another
SERVED = "openai"  # the kind of models behind a server
IN_WORDS = "composed"  # the kind of chat models that are told a picture in words

_SERVER_FLAGS = {
    "base_url": "--base-url",
    "concurrency": "--max-connections",
    "attempts": "--max-retries",
    "max_wait": "--max-wait",
    "reasoning_tokens": "--reasoning-tokens",
    "boxes": "--boxes",
}
"""Options of a model behind a server to the flags of commands (``settings.shared_options``)."""

SCORERS = ("coarse_reranker", "fine_reranker", "matcher")
"""Roles whose scores thresholds of presets belong to; ``scorer_name`` names their models."""
PIPELINES = ("organiser", "embedded")
"""Kinds of search that the organiser's pipeline makes: over indices of a hub, and over indices built here."""

_VARIABLE = re.compile(r"\$\{(CRAG_\w+):-([^}]*)\}")


class SettingsError(ValueError):
    """A preset or profile is missing or malformed; the message says which and what is known."""


class Table(BaseModel):
    """A table of a preset or a profile: no other fields, and no change once read."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Limits(Table):
    """Limits of time and length.

    The defaults are those of the challenge (CRAG-MM rules), so that a profile that names none and extends none keeps to its rules.
    """

    batch_size: int = Field(8, ge=1, le=16, description="turns the evaluator may pass in one call")
    seconds_per_turn: float = Field(10.0, gt=0, description="a call may take this long for each of its turns")
    margin_seconds: float = Field(1.0, ge=0, description="kept back from the limit of a call")
    seconds_per_dialog: float = Field(30.0, gt=0, description="all turns of a dialog together")
    answer_tokens: int = Field(
        74, gt=0, description="tokens of an answer; the evaluator cuts at 75, of which <|begin_of_text|> is one"
    )
    evidence_tokens: int | None = Field(
        None, gt=0, description="chunks in one prompt, about so many tokens; None: as many chunks as the stage shows"
    )
    pictures: int | None = Field(
        None,
        ge=1,
        description="maximum number of pictures in one prompt; further ones are joined with the photo on one "
        "labelled sheet; None: no limit",
    )
    reply_tokens: Mapping[str, Annotated[int, Field(gt=0)]] = Field(
        {},
        description="maximum reply tokens by prompt; they replace the prompt's own limit on slow machines",
    )

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        shortest = min(self.seconds_per_turn, self.seconds_per_dialog)
        if self.margin_seconds >= shortest:
            limits = {"margin": f"{self.margin_seconds:g}", "shortest": f"{shortest:g}"}
            template = "margin_seconds ({margin}) has to be below seconds_per_turn and seconds_per_dialog ({shortest})"
            raise PydanticCustomError("contradiction", template, limits)
        return self


class SearchModels(Table):
    """Kind of search: the organiser's pipeline with its encoders and indices, or another kind of search with options of its own."""

    kind: str = PIPELINES[0]
    image_model: str = "openai/clip-vit-large-patch14-336"
    image_revision: str = MAIN  # commit of a model id
    text_model: str = "BAAI/bge-large-en-v1.5"
    text_revision: str = MAIN
    image_index: str = "crag-mm-2025/image-search-index-{split}"
    web_index: str = "crag-mm-2025/web-search-index-{split}"
    options: Mapping[str, Any] = {}  # of another kind of search: all keys of the table but ``kind``

    @model_validator(mode="before")
    @classmethod
    def _collect_options(cls, table: Any) -> Any:
        """Take the whole table of another kind of search as its options; gates go by the encoder of pictures that it names."""
        is_search = isinstance(table, Mapping) and table.get("kind", PIPELINES[0]) not in PIPELINES
        if not is_search or "options" in table:
            return table
        options = {key: value for key, value in table.items() if key != "kind"}
        encoders = {name: str(options.get(name, table["kind"])) for name in ("image_model", "text_model")}
        return {"kind": table["kind"], "options": options, **encoders}

    @model_validator(mode="after")
    def _known_kind(self) -> Self:
        if self.is_pipeline and self.options:
            raise PydanticCustomError("options", "the organiser's pipeline has no options but those of [search]")
        try:
            look_up(self.kind, "kind of search", SettingsError, choices=PIPELINES, attribute="ClassName")
        except SettingsError as error:
            raise PydanticCustomError("kind", "{said}", {"said": str(error)}) from None
        return self

    @property
    def is_pipeline(self) -> bool:
        """True if the organiser's pipeline searches."""
        return self.kind in PIPELINES


class Profile(Table):
    """The model of each role that stages ask for, and the limits of a machine."""

    name: str
    description: str = ""
    models: dict[str, dict[str, Any]]
    search: SearchModels = SearchModels()
    limits: dict[str, Any] = {}  # the fields of ``Limits`` that the profile names; a preset may name others
    sees: bool = True  # whether the chat model is shown pictures; one of kind ``composed`` is told them in words
    # Roles (``A`` or ``A + B``) to role to the options that its model has if a preset loads those roles as well
    beside: dict[str, dict[str, dict[str, Any]]] = {}
    # Names of profiles whose ``[profiles.NAME]`` tables of presets apply, the later one last
    overlays: tuple[str, ...] = ()
    # Names of environment variables that its file, or one that it extends, reads
    variables: tuple[str, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _default_sees(cls, table: Any) -> Any:
        """Derive ``sees`` from the kind of the chat model if the profile does not state it."""
        models = table.get("models")
        chat = models.get("chat") if isinstance(models, Mapping) else None
        return {"sees": not (isinstance(chat, Mapping) and chat.get("kind") == IN_WORDS), **table}

    @field_validator("limits")
    @classmethod
    def _known_limits(cls, value: dict[str, Any]) -> dict[str, Any]:
        try:
            Limits.model_validate(value)
        except ValidationError as error:
            raise ValueError(first_fault(error)) from error
        return value

    @model_validator(mode="after")
    def _known_roles(self) -> Self:
        for loaded, changed in self.beside.items():
            if foreign := sorted({*loaded.split(MODELS), *changed} - {*self.models}):
                context = {"place": f'beside."{loaded}"', "role": foreign[0], "roles": ", ".join(self.models) or "none"}
                raise PydanticCustomError(
                    "role", "[{place}]: the profile has no model for the role '{role}'; roles: {roles}", context
                )
        return self

    @model_validator(mode="after")
    def _known_boxes(self) -> Self:
        form = self.models.get("chat", {}).get("boxes", "none")
        if form not in BOX_FORMS:
            context = {"form": str(form), "forms": ", ".join(BOX_FORMS)}
            raise PydanticCustomError("boxes", "boxes of [models.chat] is '{form}', not one of: {forms}", context)
        return self

    @property
    def boxes(self) -> BoxForm:
        """Form in which the chat model gives boxes of things; ``none`` for one that does not see."""
        form: BoxForm = self.models.get("chat", {}).get("boxes", "none")
        return form if self.sees else "none"

    @property
    def model_names(self) -> tuple[str, ...]:
        """Names of its models in ``[models.NAME]`` tables of presets: those of ``gate_models``, then those that score (``SCORERS``)."""
        scorers = [scorer_name(self.models[role]) for role in SCORERS if role in self.models]
        return tuple(dict.fromkeys(filter(None, (*self.gate_models, *scorers))))

    @property
    def gate_models(self) -> tuple[str, ...]:
        """Names of the models that a gate is fitted for: the chat model, and the one that image search compares pictures with."""
        return tuple(filter(None, (chat_model_name(self.models.get("chat", {})), self.search.image_model)))

    def with_loaded(self, roles: Iterable[str]) -> Profile:
        """Apply the options that models have beside others that a preset loads (``beside``); those for more roles come last."""
        loaded, models = {*roles}, self.models
        plans = [(key.split(MODELS), changed) for key, changed in self.beside.items()]
        for needed, changed in sorted(plans, key=lambda plan: len(plan[0])):
            if loaded.issuperset(needed):
                models = {role: _changed_options(spec, changed.get(role, {})) for role, spec in models.items()}
        return self if models is self.models else self.model_copy(update={"models": models})

    def with_chat_model(self, name: str) -> Profile:
        """Return the profile with another chat model: other weights, or another model of its server.

        Every role that has the same model gets the other one. Weights may be ``ORG/NAME@REVISION``.

        Raises:
            SettingsError: The chat model has neither weights nor a server.
        """
        chat = self.models.get("chat", {})
        option = next((option for option in ("path", "model") if option in chat), None)
        if option is None:
            raise SettingsError(
                f"the chat model of profile {self.name!r} has no weights or model to replace by {name!r}; gpu and server have"
            )
        was = {key: chat.get(key) for key in ("kind", option)}
        options: dict[str, str] = {option: name}
        if option == "path":
            path, revision = split_revision(name)
            options = {"path": path} if revision == MAIN else {"path": path, "revision": revision}

        def change(spec: Mapping[str, Any]) -> Mapping[str, Any]:
            return _changed_options(spec, options) if {key: spec.get(key) for key in was} == was else spec

        return self._with_models(change)

    def find_server(self, key_variable: str) -> str | None:
        """Return the address of the chat model's server that gets the key in a variable; None if the profile names no such server."""
        chat = self.models.get("chat", {})
        chat = chat.get("text", chat)
        is_served = chat.get("kind") == SERVED and chat.get("api_key_env", _KEY) == key_variable
        return chat.get("base_url") if is_served else None

    def with_server_options(self, options: Mapping[str, Any]) -> Profile:
        """Replace options of all models of the profile that are behind a server, its address (``base_url``) among them.

        Raises:
            SettingsError: The profile has no model behind a server.
        """
        served: list[Mapping[str, Any]] = []

        def change(spec: Mapping[str, Any]) -> Mapping[str, Any]:
            if spec.get("kind") != SERVED:
                return spec
            served.append(spec)
            return {**spec, **options}

        profile = self._with_models(change)
        if not served:
            flags = ", ".join(_SERVER_FLAGS.get(name, name) for name in options)
            raise SettingsError(
                f"profile {self.name!r} has no model behind a server, which {flags} would change; server and server_embedded have"
            )
        return profile

    def _with_models(self, change: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> Profile:
        """With every specification changed, those inside another one too."""

        def convert(value: Any) -> Any:
            if not isinstance(value, Mapping):
                return value
            return {key: convert(inner) for key, inner in (change(value) if "kind" in value else value).items()}

        return self.model_copy(update={"models": convert(self.models)})


def _changed_options(spec: Mapping[str, Any], changed: Mapping[str, Any]) -> dict[str, Any]:
    """Merge options into a specification; revision and form of boxes go with the weights or model that are replaced."""
    replaced = {"revision", "boxes"} if "path" in changed else {"boxes"} if "model" in changed else set()
    base = {key: value for key, value in spec.items() if key not in replaced}
    return {**base, **changed}


def chat_model_name(spec: Mapping[str, Any]) -> str:
    """Name a chat model by its weights, whatever runs them.

    A model composed of several is named by its language model.

    Returns:
        The hub id, the folder or a server's name for the model. For a GGUF file its stem. If there is none of these, the
        model's kind.
    """
    spec = spec.get("text", spec)
    name = str(spec.get("path") or spec.get("model") or "")
    if not name and spec.get("kind") in ("llama-cpp", "transformers"):
        name = os.environ.get(GGUF_VARIABLE) or QWEN_CODER.name
    return Path(name).stem if name.endswith(".gguf") else name or str(spec.get("kind", ""))


def scorer_name(spec: Mapping[str, Any]) -> str:
    """Return the name of a reranker or matcher in ``[models.NAME]``: its own path, else its kind and its encoder's weights.

    ``BAAI/bge-reranker-v2-m3`` has a path. ``cosine minilm`` and ``blip2-coarse Salesforce/blip2-itm-vit-g`` are computed with an encoder,
    which is named by its path or else by its kind.
    """
    if "path" in spec:
        return str(spec["path"])
    encoder = spec.get("encoder", {})
    weights = encoder.get("path") or encoder.get("kind") if isinstance(encoder, Mapping) else None
    return " ".join(str(part) for part in (spec.get("kind"), weights) if part)


def names(folder: Path) -> list[str]:
    """List the names of the presets or profiles in a folder."""
    return sorted(path.stem for path in folder.glob("*.toml"))


def load_profile(reference: str, folder: Path = PROFILES) -> Profile:
    """Load a profile by its name or by the path of its file.

    Raises:
        SettingsError: There is no such profile, or it is malformed.
    """
    path = find_file(reference, "profile", folder, SettingsError)
    name, (first, *others) = path.stem, read_chain(path, "profile", folder)
    base, table = first
    for extension, its_table in others:
        table = _extend(its_table, table, base, extension)
        base = extension
    read: set[str] = set()
    table |= {key: _with_variables(table[key], read) for key in ("models", "search") if key in table}
    try:
        return Profile.model_validate({"name": name, "overlays": (name,), "variables": sorted(read), **table})
    except ValidationError as error:
        raise SettingsError(f"profile {name!r} is malformed: {first_fault(error)}") from error


def read_chain(path: Path, noun: str, folder: Path) -> list[tuple[str, dict[str, Any]]]:
    """Read a preset or profile and the files that it extends.

    Args:
        path: File of the preset or profile.
        noun: "preset" or "profile".
        folder: Folder of the presets or profiles that may be extended by name.

    Returns:
        Name and tables of each file, the base first.

    Raises:
        SettingsError: A file is missing, cannot be read, is not valid TOML, or extends itself.
    """
    chain: list[tuple[str, dict[str, Any]]] = []
    files: list[Path] = []
    while True:
        # First, because a file that cannot be read, such as a circle of links, cannot be resolved either.
        table = read_table(path, noun)
        if path.resolve() in files:
            names = " extends ".join(each.stem for each in [*files, path])
            raise SettingsError(f"{noun} {files[0].stem!r} extends itself: {names}")
        files.append(path.resolve())
        chain.insert(0, (path.stem, table))
        if (base := table.pop("extends", None)) is None:
            return chain
        try:
            path = find_file(base, noun, folder, SettingsError, beside=path.parent)
        except SettingsError as error:
            raise SettingsError(f"{noun} {path.stem!r} extends {base!r}, but {error}") from error


def _with_variables(value: Any, read: set[str]) -> Any:
    """Return a value, or a table, with ``${CRAG_NAME:-DEFAULT}`` replaced from the environment; ``read`` collects the names."""
    if isinstance(value, Mapping):
        table = {key: _with_variables(inner, read) for key, inner in value.items()}
        named = any(os.environ.get(name) for name, _ in _VARIABLE.findall(str(value.get("path", ""))))
        return {key: inner for key, inner in table.items() if not (named and key == "revision")}  # it is of the default
    if isinstance(value, str):
        read.update(name for name, _ in _VARIABLE.findall(value))
        return _VARIABLE.sub(lambda match: os.environ.get(match[1]) or match[2], value)
    return value


def _extend(table: dict[str, Any], base: Mapping[str, Any], base_name: str, name: str) -> dict[str, Any]:
    """Merge a profile's tables into those of the profile that it extends."""
    same_machine = table.pop("same_machine", False)
    merged = ("models", "limits", "beside") if same_machine else ("models", "limits")
    for key in merged:
        if not (isinstance(base.get(key, {}), Mapping) and isinstance(table.get(key, {}), Mapping)):
            raise SettingsError(f"profile {name!r} is malformed: {key} of it or of {base_name!r} is no table")
    stated = "sees" in base and "chat" not in table.get("models", {})  # it is said of the base's chat model
    tables = {
        "search": base.get("search", {}),
        **({"sees": base["sees"]} if stated else {}),
        **table,
        **{key: {**base.get(key, {}), **table.get(key, {})} for key in merged},
    }
    if same_machine:
        tables["overlays"] = (*base.get("overlays", (base_name,)), name)
    return tables


def read_table(path: Path, noun: str) -> dict[str, Any]:
    """Read the tables of a preset or profile.

    Raises:
        SettingsError: The file cannot be read or is not valid TOML.
    """
    try:
        return read_toml(path)
    except OSError as error:
        raise SettingsError(f"{noun} {format_os_error(error)}") from error
    except ValueError as error:
        raise SettingsError(f"{noun} {one_line(error)}") from error
