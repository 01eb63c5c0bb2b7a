"""Ways to run a preset: whole, without a stage, with other settings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agents.base.named import parse_name
from evaluation.records import EvaluationError
from evaluation.run.launching import stage_groups

_COMMA = re.compile(r",(?![^\[\]]*\])")  # one inside a list separates nothing


@dataclass(frozen=True)
class Variant:
    """A preset with changes.

    Attributes:
        label: Name in tables.
        preset: The preset, by name or by the path of its file.
        without: Left out stages or groups of stages.
        settings: Replaced settings, such as ``queries.split=none``.
    """

    label: str
    preset: str
    without: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()

    @property
    def preset_name(self) -> str:
        """Name of the preset; of a path, that of the file."""
        return parse_name(self.preset)

    @property
    def folder(self) -> str:
        """Label as the name of a folder."""
        return re.sub(r"[^a-z0-9]+", "_", self.label.lower()).strip("_") or "run"


@dataclass(frozen=True)
class Part:
    """A part of a preset that an ablation leaves out.

    Attributes:
        name: Name in the papers' tables.
        own_stages: Its stages; none: those of the group of its name (``Stage.groups``). A preset has the part if it has one of them.
        switch: For a part that is a setting within a stage: the setting's key and the value that switches it off. A preset has the part
            if it has the stage and another value.
        besides: Settings that the rest needs once the part is gone.
    """

    name: str
    own_stages: tuple[str, ...] = ()
    switch: tuple[str, Literal[False, "none"]] | None = None
    besides: tuple[str, ...] = ()

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages it consists of; it is in a preset that has one of them."""
        return self.own_stages or stage_groups()[self.name]

    def is_in(self, settings: Mapping[str, Any]) -> bool:
        """Return whether a preset, by its settings as plain values, has the part."""
        if not set(self.stages) & set(settings["stages"]):
            return False
        if self.switch is None:
            return True
        key, off = self.switch
        value: Any = settings
        for name in key.split("."):
            value = value.get(name) if isinstance(value, Mapping) else None
        return bool(value != off)

    def leave_out(self, preset: str, settings: Mapping[str, Any]) -> Variant:
        """Return the preset without the part."""
        label = f"{parse_name(preset)} w/o {self.name}"
        if self.switch is not None:
            key, off = self.switch
            return Variant(label, preset, settings=(f"{key}={str(off).lower()}", *self.besides))
        present = tuple(stage for stage in settings["stages"] if stage in self.stages)
        return Variant(label, preset, without=present, settings=self.besides)


PARTS = (
    Part("domain router", ("domain",)),
    Part("search router", ("route",)),
    Part("tool router", ("tools",)),
    Part("cropping"),
    Part("fusion search", ("queries",), ("queries.fuse_entity", False)),
    Part("query splitting", ("queries",), ("queries.split", "none")),
    Part("coarse reranking", ("two_stage_rerank",), ("two_stage_rerank.coarse", False)),
    Part("fine reranking", ("two_stage_rerank",), ("two_stage_rerank.fine", False)),
)
"""Parts that QA-Dragon's tables 2 and 4 leave out, and parts of its section 3 that they do not."""

MORE_PARTS = (
    Part("segmentation", ("ground",), ("ground.masks", False)),
    Part("steps", ("steps",)),
    Part("reranking"),
    # Without the verifier a rule that needs it would always abstain.
    Part("verification", ("verify",), besides=("finalise.verified_by=[]",)),
)
"""Parts left out only by name."""


def select_parts(settings: Mapping[str, Any]) -> list[Part]:
    """Return the parts of ``PARTS`` that a preset has."""
    return [part for part in PARTS if part.is_in(settings)]


def leave_out(name: str, preset: str, settings: Mapping[str, Any]) -> Variant:
    """Return the preset without a part (``fusion search``) or a stage, or with a setting ``KEY=VALUE``.

    The stage may be a group of stages.

    Raises:
        EvaluationError: The name is that of a part which the preset does not have.
    """
    if "=" in name:
        return Variant(f"{parse_name(preset)} with {name}", preset, settings=(name,))
    part_name = name.replace("_", " ").replace("-", " ").lower()
    for part in (*PARTS, *MORE_PARTS):
        if part.name == part_name:
            if not part.is_in(settings):
                had = ", ".join(part.name for part in (*PARTS, *MORE_PARTS) if part.is_in(settings))
                lacks = f"preset {preset!r} has no {part.name}"
                raise EvaluationError(f"{lacks}; it has: {had or 'none of the known parts'}")
            return part.leave_out(preset, settings)
    return Variant(f"{parse_name(preset)} w/o {name}", preset, without=(name,))


def parse_variant(text: str) -> Variant:
    """Parse a variant of a command line: ``LABEL=PRESET[,-STAGE...][,KEY=VALUE...]``.

    A value may be a list.

    Raises:
        EvaluationError: It has another form.
    """
    label, _, rest = text.partition("=")
    preset, *changes = [piece.strip() for piece in _COMMA.split(rest)]
    wrong = [piece for piece in changes if not piece.startswith("-") and "=" not in piece]
    if not label.strip() or not preset or wrong:
        raise EvaluationError(
            f'{text!r} is no variant; write "LABEL=PRESET,-STAGE,KEY=VALUE", such as "no checks=cruise,-consistency"'
        )
    return Variant(
        label.strip(),
        preset,
        without=tuple(piece[1:] for piece in changes if piece.startswith("-")),
        settings=tuple(piece for piece in changes if not piece.startswith("-")),
    )


def check_labels(variants: Sequence[Variant]) -> None:
    """Check that no two variants would write into the same folder.

    Raises:
        EvaluationError: Two of them would.
    """
    seen: dict[str, Variant] = {}
    for variant in variants:
        other = seen.setdefault(variant.folder, variant)
        if other != variant:
            raise EvaluationError(f"{other.label!r} and {variant.label!r} would share a folder; give one another label")
