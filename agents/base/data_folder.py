"""The folders presets/, profiles/ and prompts/: in a folder of their own in an installation, beside the packages in a checkout."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The repository in a checkout; the folder of all packages in an installation."""

_INSTALLED = ROOT / "crag_mm_agent_data"
"""Where a wheel has the three folders (``force-include`` in pyproject.toml); a checkout has no such folder.

It is not below ``agents``: an editable installation would leave a folder ``agents`` beside other packages, and a fork's package ``agents``
without ``__init__.py`` would be joined with it.
"""


def is_installed() -> bool:
    """Return whether this is an installation, not a checkout."""
    return _INSTALLED.is_dir()


def data_path(path: str | Path) -> Path:
    """Return the place of a data file or folder, such as ``presets/best.toml``; an absolute path stays as it is."""
    return (_INSTALLED if is_installed() else ROOT) / path
