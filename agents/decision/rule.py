"""Base class of decision rules, their input, and the names by which presets load rules from outside of this project."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pydantic import ValidationError

from agents.base.files import first_fault
from agents.base.named import ImportPath, import_object, look_up
from agents.profiles.profile import SettingsError, Table
from agents.turn import Candidate, Turn

CLASS = "rule"  # key of the table of a rule from outside: its class


class RuleOptions(Table):
    """Settings of a rule: options of the stage ``finalise``, or the table of a rule from outside."""


@dataclass(frozen=True)
class RuleContext:
    """All that a rule may read besides the turn and its options.

    Attributes:
        candidate: The answer to decide on, never a refusal.
        stages: Names of all stages of the preset.
        guarded: Whether an answer that follows orders in the evidence is withheld (``guard.injection`` of the preset).
        sees: Whether the chat model saw the photo, so that an answer may rest on it alone.
        gated: Whether the preset has a fitted gate: signals that the gate weighs must not withhold an answer on their own then.
        signals: Known signals of the candidate by name.
    """

    candidate: Candidate
    stages: tuple[str, ...] = ()
    guarded: bool = True
    sees: bool = False
    gated: bool = False
    signals: Mapping[str, float] = field(default_factory=dict)


class Rule(ABC):
    """Rule that may withhold an answer; its class declares all that is known of it."""

    Options: ClassVar[type[RuleOptions]] = RuleOptions
    # Whether it is a threshold that is fitted on runs. Calibration judges the answers that such a rule withheld, and excludes those that
    # other rules withheld
    fitted: ClassVar[bool] = False

    options: RuleOptions

    def __init__(self, options: RuleOptions | None = None) -> None:
        self.options = options if options is not None else self.Options()

    @abstractmethod
    def reason(self, turn: Turn, context: RuleContext) -> str | None:
        """Return why the answer is withheld, in words that people read, or None. It calls no model."""

    def needs(self) -> tuple[str, ...]:
        """Return the stages that have to run before ``finalise``; the ones that a preset does not name are inserted."""
        return ()


def outside_rules(tables: Mapping[str, Any]) -> tuple[Rule, ...]:
    """Build the rules that a preset brings from outside, in their order.

    Args:
        tables: Options by a name of the preset's choice; ``rule`` names the class as ``package.module:ClassName``. A value of None
            switches the rule off.

    Raises:
        SettingsError: A value is no table, names no class derived from ``Rule``, or holds malformed options.
    """
    return tuple(_build(name, table) for name, table in tables.items() if table is not None)


def _build(name: str, table: Any) -> Rule:
    if not isinstance(table, Mapping) or CLASS not in table:
        raise SettingsError(f'{name} is no rule; write a table with {CLASS} = "package.module:ClassName"')
    options = {key: value for key, value in table.items() if key != CLASS}
    place = look_up(table[CLASS], "rule", SettingsError, attribute="ClassName")
    assert isinstance(place, ImportPath)  # nothing else may be written
    rule: type[Rule] = import_object(place, str(place), "rule", SettingsError, Rule)
    try:
        return rule(rule.Options.model_validate(options))
    except ValidationError as error:
        choices = ", ".join(rule.Options.model_fields) or "none"
        raise SettingsError(f"{name}: {first_fault(error)}; known: {choices}") from error
