"""Installs locks into the environment that runs it, without more than Python: ``python -m tools.install [--target FOLDER] LOCK ...``.

uv installs them, in a sixth of pip's time; where it cannot, pip does. pip's settings say where packages are looked for, from its files and
the environment (``PIP_EXTRA_INDEX_URL``): uv reads none of them, so they are handed over. All places count alike, as for pip: the hashes
say what may be installed. Nothing is compiled beforehand, which took a third of the time: most modules are never imported.
"""

import ast
import importlib.util
import os
import subprocess
import sys

_UV = "requirements/uv.txt"
_LOCKED = ["install", "--quiet", "--no-deps", "--require-hashes"]
_OPTIONS = {
    "index-url": "--default-index",
    "extra-index-url": "--index",
    "find-links": "--find-links",
    "trusted-host": "--allow-insecure-host",
}
"""uv's options by pip's settings."""
_VARIABLES = {"cert": "SSL_CERT_FILE", "proxy": "HTTPS_PROXY"}


def main(arguments: list[str]) -> int:
    """Install the locks, one after another.

    Returns:
        0, or the status of pip for the first lock that could not be installed.
    """
    target, locks = (arguments[:2], arguments[2:]) if arguments[:1] == ["--target"] else ([], arguments)
    if not locks:
        print("usage: python -m tools.install [--target FOLDER] LOCK ...", file=sys.stderr)
        return 2
    if importlib.util.find_spec("uv") is None:
        _by_pip(["-r", _UV])
    settings = pip_settings()
    for lock in locks:
        pip_arguments = [*target, "-r", lock]
        if _by_uv(pip_arguments, settings) and (status := _by_pip(pip_arguments)):
            return status
    return 0


def pip_settings() -> dict[str, str]:
    """Return pip's settings by name: those of the environment replace those of files, those of installing what is said for all of pip."""
    listed = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True).stdout
    sections: dict[str, dict[str, str]] = {"global": {}, "install": {}, ":env:": {}}
    for line in listed.splitlines():
        key, _, value = line.partition("=")
        section, _, name = key.rpartition(".")
        sections.setdefault(section, {})[name] = str(ast.literal_eval(value))
    return sections["global"] | sections["install"] | sections[":env:"]


def uv_options(settings: dict[str, str]) -> list[str]:
    """Return uv's options for the places where pip looks for packages."""
    options = ["--no-config", "--index-strategy", "unsafe-best-match"]
    for name, option in _OPTIONS.items():
        for place in settings.get(name, "").split():
            options += [option, place]
    return [*options, "--no-index"] if settings.get("no-index", "").lower() in ("1", "true", "yes", "on") else options


def _by_uv(pip_arguments: list[str], settings: dict[str, str]) -> int:
    """Install by uv; return its status, 1 where there is none."""
    variables = {variable: settings[name] for name, variable in _VARIABLES.items() if name in settings}
    command = [
        sys.executable,
        "-m",
        "uv",
        "pip",
        *_LOCKED,
        "--python",
        sys.executable,
        *uv_options(settings),
        *pip_arguments,
    ]
    return subprocess.run(command, env=os.environ | variables).returncode


def _by_pip(pip_arguments: list[str]) -> int:
    """Install by pip; return its status."""
    options = ["--disable-pip-version-check", "--no-compile", "--upgrade"]
    return subprocess.run([sys.executable, "-m", "pip", *_LOCKED, *options, *pip_arguments]).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
