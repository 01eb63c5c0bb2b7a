"""Configuration of a command's run: that of its agent, and its search. It imports no library of models."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.base.cache_folder import DEFAULT_CACHE, default_cache
from agents.base.files import parse_json
from agents.base.named import parse_name
from agents.base.revisions import with_revision
from agents.profiles.profile import PRESETS, PROFILES, SettingsError, load_profile, names
from agents.search.changed_files import IndexedFiles, describe_changes
from agents.search.collection import Collection
from agents.search.paths import organiser_pages
from agents.settings.agent_config import AgentConfig
from agents.settings.presets import load_settings

DEFAULT_SPLIT = "validation"
"""Of the organiser's indices, and of those built without a name."""

_PREPARED = ("validation", "public-test")  # splits of the mini set, as its indices are called


def preset_names() -> list[str]:
    """List the presets that can be run."""
    return names(PRESETS)


def profile_names() -> list[str]:
    """List the profiles that can be run."""
    return names(PROFILES)


def _tag(split: str) -> str:
    """Spell a split as the names of indices do, with hyphens."""
    return split.replace("_", "-")


@dataclass(frozen=True)
class RunConfig(AgentConfig):
    """A preset under a profile with its search: the configuration of a run."""

    collection: Collection | None = None  # what is searched, in place of the indices of a split
    collection_note: str = (
        ""  # why no gate of the collection is used although it has some, and which files changed since it was indexed
    )

    @classmethod
    def read(
        cls,
        preset: str = "best",
        profile: str = "embedded",
        *,
        without: Sequence[str] = (),  # stages, or groups of stages, to leave out
        overrides: Sequence[str] = (),  # settings to replace, as ``queries.split=none`` (see ``load_settings``)
        chat_model: str | None = None,  # weights or model in place of those of the profile's chat model
        base_url: str | None = None,  # root of the API of its server
        server: Mapping[str, Any] | None = None,  # options of models behind a server in place of the profile's
        cache: Path = DEFAULT_CACHE,
        knowledge: Path
        | None = None,  # folder of a collection; the gate fitted to it is used, unless an override names one
        checks_variables: bool = True,  # whether an environment variable ``CRAG_...`` that names nothing is refused
    ) -> RunConfig:
        """Read a preset and a profile, each a name or the path of a TOML file.

        Raises:
            SettingsError: They, a stage to leave out, a setting or an environment variable are unknown or malformed, or change nothing
                under this preset.
            SearchError: There is no such collection.
            HeadError: A gate of the collection is malformed.
        """
        ready = load_profile(profile)
        ready = ready if chat_model is None else ready.with_chat_model(chat_model)
        server = {**({} if base_url is None else {"base_url": base_url}), **(server or {})}
        ready = ready.with_server_options(server) if server else ready
        collection, note = None if knowledge is None else Collection.open(knowledge), ""
        if collection is not None:
            # Its indices are in the cache, whatever the profile searches otherwise.
            ready = ready.model_copy(update={"search": ready.search.model_copy(update={"kind": "embedded"})})
            gate, gate_note = _find_gate(collection, parse_name(preset), ready.gate_models)
            note = "\n".join(filter(None, (gate_note, describe_changes(collection, cache))))
            overrides = [*([f"finalise.gate={json.dumps(str(gate))}"] if gate is not None else []), *overrides]
            overrides = [f"collection={json.dumps(collection.name)}", *overrides]
            stages = load_settings(preset, ready, collection=True).stage_classes
            # A collection wants its own facts; an override of the command line comes after these.
            own = {"cross_check": "never", "grounded_answer": "false"}
            overrides = [
                *(f"{stage}.own_knowledge={value}" for stage, value in own.items() if stage in stages),
                *overrides,
            ]
        config, unknown = cls._read(
            preset,
            ready,
            without=without,
            overrides=overrides,
            is_collection=collection is not None,
            cache=cache,
            collection=collection,
            collection_note=note,
        )
        if unknown and checks_variables:
            raise SettingsError("; ".join(unknown))
        return config

    @classmethod
    def of_profile(
        cls,
        profile: str,
        *,
        chat_model: str | None = None,
        base_url: str | None = None,
        server: Mapping[str, Any] | None = None,
        cache: Path = DEFAULT_CACHE,
        knowledge: Path | None = None,
    ) -> RunConfig:
        """Read a profile for its models or its search alone, with the preset that has the fewest stages.

        Environment variables for the stages of other presets may be set: they are checked where those presets are read.

        Raises:
            SettingsError: The profile is unknown or malformed, or has no such model to replace.
            SearchError: There is no such collection.
        """
        return cls.read(
            "vlm_only",
            profile,
            chat_model=chat_model,
            base_url=base_url,
            server=server,
            cache=cache,
            knowledge=knowledge,
            checks_variables=False,
        )

    @property
    def name_source(self) -> Callable[[str], str] | None:
        """Names the sources of a collection by the paths that its owner knows."""
        return None if self.collection is None else self.collection.name_source

    @property
    def has_changed(self) -> Callable[[str], bool]:
        """Tells by the URL of a source whether its file changed after the index that is in the cache now was built."""
        if self.collection is None:
            return lambda _: False
        return IndexedFiles.read(self.collection, self.cache).has_changed

    @property
    def page_folder(self) -> Path:
        """Folder of the full texts of pages, beside the organiser's own (``agents.search.pages.web_cache``)."""
        return self.cache / "page_cache"

    @property
    def cached_pages(self) -> int:
        """Number of pages whose full text the run can read."""
        folders = {self.page_folder, organiser_pages()}
        return sum(len(list(folder.iterdir())) for folder in folders if folder.is_dir())

    def unreachable(
        self, *, split: str, web: bool = True, images: bool = True, models: bool = True, servers: bool = True
    ) -> str | None:
        """Return why indices, models or servers of the run are not available, before any is loaded; None if they are.

        ``agents.profiles.reach`` decides.

        Args:
            split: Split whose indices are needed.
            web: Whether the index of pages is needed.
            images: Whether the index of images is needed.
            models: Look for all models; False: only for those of the search.
            servers: Ask the servers of models.

        Raises:
            PromptError: A prompt is missing or malformed.
        """
        from agents.profiles.reach import unreachable
        from agents.settings.stage_needs import list_roles

        search, tag = self.profile.search, _tag(split)
        image_model = with_revision(search.image_model, search.image_revision)
        text_model = with_revision(search.text_model, search.text_revision)
        pairs = [(image_model, search.image_index)] * (web or images) + [(text_model, search.web_index)] * web
        pairs = pairs if search.kind == "organiser" else []
        indices = [index.format(split=tag) for _, index in pairs]
        roles = list_roles(self.settings, self.prompts) if models else ()
        return unreachable(self.profile, roles, indices, [encoder for encoder, _ in pairs], servers=servers)

    def plan_search(self, split: str, *, web: bool = True, images: bool = True) -> dict[str, Any]:
        """Return the arguments of ``unreachable`` and ``pipeline``: of the collection if there is one, else of the split."""
        if self.collection is None:
            return {"split": split, "web": web, "images": images}
        own = self.collection
        return {"split": own.split, "web": web and own.pages is not None, "images": images and own.photos is not None}

    def pipeline(self, *, split: str, web: bool = True, images: bool = True) -> Any:
        """Open the search of the profile for a split: the organiser's pipeline over its indices, or a ``ReadySearch`` of another kind.

        Returns:
            None if neither web nor image search is wanted.

        Raises:
            SearchError: An index is missing, or the search cannot be opened.
        """
        if not (web or images):
            return None
        from agents.search.kinds import open_search
        from agents.search.own_pages import find_own_pages
        from agents.search.pipelines import open_pipeline

        search, tag = self.profile.search, _tag(split)
        if not search.is_pipeline:
            return open_search(search, split=split, cache=self.cache, web=web, images=images)
        if search.kind == "embedded":
            self._check_indices(split, web=web)
        is_whole = getattr(getattr(self.settings, "web_search", None), "whole_collection", False)
        pipeline = open_pipeline(
            kind="organiser" if search.kind == "organiser" else "embedded",
            image_model=with_revision(search.image_model, search.image_revision),
            text_model=with_revision(search.text_model, search.text_revision),
            image_index=search.image_index.format(split=tag),
            web_index=search.web_index.format(split=tag) if web else None,
            cache=self.cache,
            things=is_whole,
        )
        pipeline.image_search = images  # beside the organiser's own ``web_search``; the gateway respects both
        pipeline.picture_folder, pipeline.page_folder = self.cache / "image_cache", self.page_folder
        pipeline.own_pages = find_own_pages(self.cache, tag) if is_whole else None
        return pipeline

    def describe_indices(self, *, split: str, web: bool = True, images: bool = True) -> str:
        """Return the start of the revision of each index that ``pipeline`` opens; "" if it opens none that was built here."""
        is_opened = {"image": images, "web": web}
        revisions = self._find_revisions(split)
        return ", ".join(f"{kind} {revision[:12]}" for kind, revision in revisions.items() if is_opened[kind])

    def splits(self, *, web: bool = True) -> list[str]:
        """List the splits whose indices are in the cache, the one prepared last first.

        Args:
            web: List only splits that have an index of pages. Each has one of images, without which no pages can be searched.

        Returns:
            An empty list if the profile searches no indices of the cache.
        """
        if self.profile.search.kind != "embedded":
            return []
        from agents.search.hub import find_published

        hub, search = self.cache / "hub", self.profile.search
        images, pages = find_published(hub, search.image_index), find_published(hub, search.web_index)
        times = {
            split: max(when, pages.get(split, when)) for split, when in images.items() if split in pages or not web
        }
        return [split.replace("-", "_") for split in sorted(times, key=lambda split: -times[split])]

    def has_photos_alone(self, split: str) -> bool:
        """Return whether the cache has an index of a split's photos, and none of its pages."""
        return list(self._find_revisions(split)) == ["image"]

    def read_indexed(self) -> list[tuple[str, str]] | None:
        """Return the indexed parts of the collection, as names and texts; None if its indices are not in the cache.

        A chunk has its page, as ``Collection.name_source`` names it, an attribute the name of its thing and its own.
        """
        if self.collection is None or not (revisions := self._find_revisions(self.collection.split)):
            return None
        from agents.search.index_builder import read_rows

        search, tag, sources = self.profile.search, _tag(self.collection.split), list[tuple[str, str]]()
        for kind in revisions:
            template = search.image_index if kind == "image" else search.web_index
            for row in read_rows(self.cache / "hub", template.format(split=tag)):
                if kind == "web":
                    sources.append(
                        (self.collection.name_source(row["page_url"]), f"{row['page_name']} {row['page_snippet']}")
                    )
                    continue
                for entity, attributes in parse_json(row["info"]).items():
                    sources.append((entity, entity))
                    sources += [(f"{entity} ({name})", str(value)) for name, value in attributes.items()]
        return sources

    def read_exhibits(self) -> dict[Path, tuple[str, ...]]:
        """Return the names of the things in each indexed photo of the collection, by its resolved path; empty without an index."""
        if self.collection is None or "image" not in self._find_revisions(self.collection.split):
            return {}
        from agents.search.index_builder import read_rows

        rows = read_rows(self.cache / "hub", self.profile.search.image_index.format(split=_tag(self.collection.split)))
        files = {(self.collection.folder / self.collection.name_source(row["image_url"])): row["info"] for row in rows}
        return {file.resolve(): tuple(parse_json(info)) for file, info in files.items()}

    def _find_revisions(self, split: str) -> dict[str, str]:
        """Return the revisions of a split's indices in the cache by their kind, ``image`` and ``web``."""
        search = self.profile.search
        if search.kind != "embedded":
            return {}
        from agents.search.hub import current_revision

        templates = {"image": search.image_index, "web": search.web_index}
        revisions = {
            kind: current_revision(self.cache / "hub", template.format(split=_tag(split)))
            for kind, template in templates.items()
        }
        return {kind: revision for kind, revision in revisions.items() if revision is not None}

    def newest_split(self, *, web: bool = True) -> str:
        """Return the split to search by default: the one prepared last, else the organiser's."""
        return next(iter(self.splits(web=web)), DEFAULT_SPLIT)

    def _check_indices(self, split: str, *, web: bool) -> None:
        """Raise SearchError if an index of the split is missing; it names the existing splits and the command that makes this one."""
        from agents.search.hits import SearchError
        from agents.search.hub import current_revision

        search = self.profile.search
        templates = {"image": search.image_index, **({"web": search.web_index} if web else {})}
        hub, splits = self.cache / "hub", self.splits(web=web)
        for kind, template in templates.items():
            dataset_id = template.format(split=_tag(split))
            if current_revision(hub, dataset_id) is not None:
                continue
            place = "" if self.cache.resolve() == default_cache().resolve() else f" --cache {self.cache}"
            if self.collection is not None:
                raise SearchError(f"{self.collection.folder} is not indexed; run: {self._index_command}{place}")
            sources = {"image": "--images FOLDER --table TABLE.csv", "web": "--documents FOLDER"}[kind]
            is_prepared = _tag(split) in _PREPARED
            if is_prepared:
                mend = f"prepare it: python -m mini_crag_mm.prepare --split {_tag(split).replace('-', '_')}{place}"
            else:
                mend = f"build it: python -m agents.search.build_index {sources} --split {split}{place}"
            has = f"the cache has {', '.join(splits)}: --split {splits[0]}" if splits else ""
            ways = [mend, has] if is_prepared else [has, mend]
            raise SearchError(f"there is no {kind} index {dataset_id} in {hub}; {', or '.join(filter(None, ways))}")

    @property
    def _index_command(self) -> str:
        """Command that indexes the collection with the encoders of the profile."""
        search, folder = self.profile.search, self.collection.folder if self.collection is not None else ""
        models = {
            "image": with_revision(search.image_model, search.image_revision),
            "text": with_revision(search.text_model, search.text_revision),
        }
        encoders = [
            f"--{kind}-model {model}" for kind, model in models.items() if model not in ("efficientnet-lite2", "minilm")
        ]
        return " ".join(["crag index", str(folder), *encoders])


def _find_gate(collection: Collection, preset: str, models: Sequence[str]) -> tuple[Path | None, str]:
    """Find the gate of a collection fitted for a preset and these models.

    Args:
        collection: The collection.
        preset: Name of the preset.
        models: The chat model and the one of image search (``Profile.gate_models``).

    Returns:
        The gate's file, or None; and a line that says why no gate of the collection is used although it has some, or "".

    Raises:
        HeadError: A gate's file is malformed.
    """
    from agents.methods.gate import Gate  # with numpy

    others = []
    for path in collection.gates:
        fitted = Gate.load(path).fitted_on
        fitted_preset, fitted_models = str(fitted.get("preset")), [str(name) for name in fitted.get("models") or ()]
        if (fitted_preset, fitted_models) == (preset, [*models]):
            return path.resolve(), ""
        others.append(f"{path.name} is for {fitted_preset!r} with {' + '.join(fitted_models)}")
    if not others:
        return None, ""
    return None, (
        f"no gate of the collection is used, because none was fitted for {preset!r} with {' + '.join(models)} "
        f"({'; '.join(others)}); to fit one: crag calibrate {collection.folder}"
    )
