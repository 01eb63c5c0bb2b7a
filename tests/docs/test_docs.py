"""The documentation names only what exists: pages, files, modules, commands, options, settings, presets, make targets and tests."""

from __future__ import annotations

import importlib
import importlib.util
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from agents.profiles.profile import PRESETS, PROFILES, ROOT, SettingsError, names
from agents.settings.presets import load_settings
from agents.stage import stage_groups
from apps.crag import COMMANDS
from evaluation.studies.variants import MORE_PARTS, PARTS

PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "lab" / "notes").glob("*.md")),
    *sorted((ROOT / "mini_crag_mm").glob("*.md")),
    ROOT / "examples" / "README.md",
]
PACKAGES = ("agents", "apps", "evaluation", "training", "mini_crag_mm", "lab")
FOREIGN_OPTIONS = {"--generate", "--no-deps", "--require-hashes", "--upgrade-package"} | {
    *("--head", "--address", "--target", "--help", "--max-model-len", "--reasoning-parser", "--solver")
}
"""Options of other programs than ours that the pages name, and the one that argparse adds."""

_LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")
_CODE = re.compile(r"^```.*?^```|``?([^`\n]+)``?", re.MULTILINE | re.DOTALL)
_PLACEHOLDER = re.compile(r"\b[A-Z][A-Z_]+\b")
_SETTING = re.compile(r"--(?:set|without) ('[^'=]+=[^']*'|[\w.]+=[^\s'`,]+)")
"""``KEY=VALUE`` of a command."""
_NEW_FILE = re.compile(r"`([\w./-]+)` \(new\)")


def page_ids(page: Path) -> str:
    return str(page.relative_to(ROOT))


pages = pytest.mark.parametrize("page", PAGES, ids=page_ids)


def code(page: Path) -> list[str]:
    """The text of a page's code blocks and code spans, continued lines joined."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    return [match.group(1) or match.group(0) for match in _CODE.finditer(text)]


def spans(page: Path) -> list[str]:
    """Code spans alone."""
    return [text for text in code(page) if not text.startswith("```")]


def new_files(page: Path) -> set[str]:
    """Files that a page shows how to add."""
    return set(_NEW_FILE.findall(page.read_text(encoding="utf-8")))


def find_in_code(page: Path, pattern: str) -> set[str]:
    """What a pattern's group finds in a page's code; placeholders such as NAME are left out."""
    values = {value.strip("`'\"") for text in code(page) for value in re.findall(pattern, text)}
    return {value for value in values if value and not _PLACEHOLDER.search(value)}


@cache
def list_tracked() -> frozenset[str]:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    files = {path for path in listed.stdout.splitlines() if (ROOT / path).exists()}
    folders = {str(parent) for path in files for parent in Path(path).parents}
    return frozenset(files | folders)


@cache
def sources() -> str:
    return "\n".join(
        (ROOT / path).read_text(encoding="utf-8")
        for path in sorted(list_tracked())
        if path.endswith((".py", "Makefile"))
    )


def is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # a name below a module that is no package
        return False


def is_path(text: str) -> bool:
    """Whether a code span names a file or folder of the repository."""
    root = text.split("/")[0]
    return bool(re.fullmatch(r"[\w.{},*/-]+", text)) and (
        ("/" in text and root in list_tracked() and root != ".")
        or bool(re.fullmatch(r"[\w-]+\.(py|toml|j2|sh|yaml)", text))
    )


def exists(text: str, page: Path) -> bool:
    """Whether a path, with placeholders and ``*`` for any name, is in the repository, seen from its root, the page or a folder below."""
    pattern = re.escape(_PLACEHOLDER.sub("*", text).rstrip("/")).replace(r"\*", "[^/]*")
    here = re.escape(str(page.parent.relative_to(ROOT))) + "/"
    anywhere = "(.*/)?" if "/" not in text.rstrip("/") else ""
    return any(re.fullmatch(f"(?:{here})?{anywhere}{pattern}", path) for path in list_tracked())


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives a page's headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=page_ids)
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in _LINK.findall(page.read_text(encoding="utf-8")):
        linked = (page.parent / target).resolve() if target else page
        assert linked.exists(), f"no {target}"
        assert not anchor or anchor in anchors(linked), f"no heading for #{anchor} in {linked.name}"


@pages
def test_files_exist(page: Path) -> None:
    parts = {part.strip("`'\"().,:;") for text in code(page) for part in text.split()}
    missing = {part for part in parts - new_files(page) if is_path(part) and not exists(part, page)}
    assert not missing


@pages
def test_commands_are_modules(page: Path) -> None:
    for module in find_in_code(page, r"python -m ([\w.]+)"):
        assert is_module(module), f"no module {module}"
        spec = importlib.util.find_spec(module)
        if spec is not None and spec.submodule_search_locations is not None and module.split(".")[0] in PACKAGES:
            assert is_module(f"{module}.__main__"), f"{module} has no __main__"


@pages
def test_commands_of_crag_exist(page: Path) -> None:
    named = {command for text in code(page) for command in re.findall(r"(?:^|[`\s(])crag ([a-z]\w+)", text)}
    assert named <= {*(command.name for command in COMMANDS), "completion"}


@pages
def test_dotted_names_exist(page: Path) -> None:
    named = {text for text in spans(page) if re.fullmatch(rf"({'|'.join(PACKAGES)})(\.\w+)+", text)}
    for name in sorted(named):
        module, attributes = name, list[str]()
        while not is_module(module):
            module, _, attribute = module.rpartition(".")
            attributes.insert(0, attribute)
        value = importlib.import_module(module) if attributes else None
        for attribute in attributes:
            value = getattr(value, attribute)


@pages
def test_make_targets_and_variables_exist(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z0-9-]+):", makefile, re.MULTILINE))
    variables = set(re.findall(r"^([A-Z]+) \?=", makefile, re.MULTILINE))
    for text in code(page):
        for target, rest in re.findall(r"(?:^|[`\s])make ([a-z][\w-]*)([^#\n]*)", text):
            assert target in targets, f"no target {target}"
            assert set(re.findall(r"\b([A-Z]+)=", rest)) <= variables, rest


@pages
def test_options_exist(page: Path) -> None:
    options = find_in_code(page, r"(?<![\w-])(--[a-z][\w-]+)") - FOREIGN_OPTIONS
    fields = set(re.findall(r"^    (\w+): .*\b(?:Field|Flag)\(", sources(), re.MULTILINE))  # of a command's ``Options``
    option_names = {f"--{field.replace('_', '-')}" for field in fields}
    missing = {option for option in options - option_names if f'"{option}"' not in sources()}
    assert not missing


@pages
def test_presets_and_profiles_exist(page: Path) -> None:
    new = {Path(path).stem for path in new_files(page)}
    presets = {name for listed in find_in_code(page, r"(?:--presets? |PRESET=)([\w,-]+)") for name in listed.split(",")}
    assert presets <= {*names(PRESETS), *new}
    assert find_in_code(page, r"(?:--profile |PROFILE=)([\w-]+)") <= {*names(PROFILES), *new}


def load_for_some_model(preset: str, setting: str) -> None:
    """Load a preset with a setting, for a model that does not see, or else for one that sees: their chains have stages of their own."""
    try:
        load_settings(preset, "embedded", overrides=[setting])
    except SettingsError:
        load_settings(preset, "server", overrides=[setting])


@pages
def test_settings_and_stages_exist(page: Path) -> None:
    new = {Path(path).stem for path in new_files(page)}
    lines = [line for text in code(page) for line in text.splitlines() if "python -m training." not in line]
    for line in lines:
        named = re.findall(r"--presets? ([\w,]+)", line) or ["best"]
        presets = [preset for each in named for preset in (names(PRESETS) if each == "all" else each.split(","))]
        for setting in _SETTING.findall(line):
            if not _PLACEHOLDER.search(setting) and setting.split(".")[0] not in new:
                for preset in presets:
                    load_for_some_model(preset, setting.strip("'"))
    parts = {part.name for part in (*PARTS, *MORE_PARTS)}  # of evaluation.studies.ablate
    stages = {
        stage
        for preset in names(PRESETS)
        for each in ("embedded", "server")
        for stage in load_settings(preset, each).stages
    }
    assert find_in_code(page, r"--without ([\w-]+)(?![\w-]*[.=])") - new - parts <= {*stages, *stage_groups()}


@pytest.mark.parametrize("preset", names(PRESETS))
def test_settings_that_a_preset_speaks_of_are_its_own(preset: str) -> None:
    for setting in _SETTING.findall((PRESETS / f"{preset}.toml").read_text(encoding="utf-8")):
        load_for_some_model(preset, setting.strip("'").rstrip("."))


def test_the_table_of_limits_is_that_of_the_profiles() -> None:
    rows = {}
    for profile in names(PROFILES):
        limits = load_settings("best", profile).limits
        seconds = f"{limits.seconds_per_turn:,.0f}, {limits.seconds_per_dialog:,.0f}"
        pictures = "as the preset shows" if limits.pictures is None else str(limits.pictures)
        rows[profile] = [seconds, str(limits.batch_size), f"{limits.evidence_tokens:,}", pictures]
    table = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8").partition("| Profile | Seconds per turn")[2]
    cells_by_profile = {}
    for line in table.partition("\n\n")[0].splitlines()[2:]:
        first, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        cells_by_profile.update({name.strip("` "): cells for name in first.split(",")})
    assert cells_by_profile == rows


@pages
def test_tests_exist(page: Path) -> None:
    named = {name for text in spans(page) for name in re.findall(r"\b(test_\w+)\b(?!\.py)", text)}
    missing = {name for name in named if f"def {name}(" not in sources() and not exists(f"{name}.py", page)}
    assert not missing
