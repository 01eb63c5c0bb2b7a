"""The domains of CRAG-MM: the topic of each, and the reasoning for its questions, from ``prompts/domains/*.toml``."""

from functools import cache

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agents.base.data_folder import data_path
from agents.base.files import first_fault, format_os_error, read_toml
from agents.profiles.profile import SettingsError

DOMAINS = data_path("prompts/domains")


class DraftExample(BaseModel):
    """A worked question: at most five steps, the exact object named first, ignorance admitted where there is any."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    question: str
    steps: tuple[str, ...] = Field(min_length=1, max_length=5)
    answer: str


class Domain(BaseModel):
    """One domain: its label in the data sets, a description for zero-shot routing, hints and examples for the draft."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    description: str
    hint: str
    examples: tuple[DraftExample, ...] = Field(min_length=1)


def find_domain(label: str) -> str | None:
    """Find the domain that a data set's label names, in full or in part (``local`` for ``sightseeing (local)``)."""
    plain_label = " ".join(label.casefold().split())
    for name in load_domains():
        if plain_label and plain_label in (name, *(part.strip() for part in name.rstrip(")").split("("))):
            return name
    return None


@cache
def load_domains() -> dict[str, Domain]:
    """Load all domains by name.

    Raises:
        SettingsError: A file is malformed or cannot be read, or two files name the same domain.
    """
    domains: dict[str, Domain] = {}
    for path in sorted(DOMAINS.glob("*.toml")):
        try:
            domain = Domain.model_validate(read_toml(path))
        except ValidationError as error:
            raise SettingsError(f"{path} is malformed: {first_fault(error)}") from error
        except OSError as error:
            raise SettingsError(format_os_error(error)) from error
        except ValueError as error:
            raise SettingsError(str(error)) from error
        if domain.name in domains:
            raise SettingsError(
                f"{path} names the domain {domain.name!r}, which another file names too; rename one of them"
            )
        domains[domain.name] = domain
    return domains
