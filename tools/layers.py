"""Writes the layers of ``agents/`` into docs/architecture.md: ``python -m tools.layers``.

Their order is that of the contract in pyproject.toml, which import-linter checks; what each holds is said by its own docstring.
"""

import ast
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
AGENTS = ROOT / "agents"
PAGE = ROOT / "docs" / "architecture.md"
_BLOCK = re.compile(r"(<!-- python -m tools\.layers -->\n).*?(<!-- end -->)", re.DOTALL)
_WIDTH = 18  # of the column of names


def layers() -> list[list[str]]:
    """Return the packages and modules of ``agents/`` by layer, the highest first."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    [order] = [contract["layers"] for contract in contracts if contract.get("containers") == ["agents"]]
    return [re.split(r" *[|:] *", layer) for layer in order]


def picture() -> str:
    """Return a line for each package and module, with the number of its layer, and for each package inside a package."""
    lines = []
    for number, names in zip(range(len(layers()), 0, -1), layers(), strict=True):
        for name in names:
            lines.append(f"{number:2}  {_line(name)}")
            inner = sorted(path.parent.name for path in (AGENTS / name).glob("*/__init__.py"))
            lines += [f"      {_line(f'{name}/{each}', indent=2)}" for each in inner]
    return "\n".join(["```", *lines, "```", ""])


def _line(path: str, indent: int = 0) -> str:
    is_package = (AGENTS / path).is_dir()
    file = AGENTS / path / "__init__.py" if is_package else AGENTS / f"{path}.py"
    docstring = " ".join((ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").split())
    name = f"{path.rpartition('/')[2]}/" if is_package else f"{path}.py"
    # A module's docstring goes on after its first colon or full stop; a package's is one sentence
    return f"{name:{_WIDTH - indent}}{docstring.rstrip('.') if is_package else re.split(r'[:.] ', f'{docstring} ')[0]}".rstrip()


def main(page: Path = PAGE) -> int:
    """Write the picture into the page.

    Returns:
        0, or 1 if the page has no place for it.
    """
    text, count = _BLOCK.subn(lambda match: match[1] + picture() + match[2], page.read_text(encoding="utf-8"))
    if not count:
        print(f"error: {page} has no '<!-- python -m tools.layers -->' ... '<!-- end -->'", file=sys.stderr)
        return 1
    page.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
