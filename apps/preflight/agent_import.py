"""Imports ``agents.user_config`` in the current folder as the evaluator does, and prints a JSON report in its last line.

Run as a file, in a process and a folder of its own: ``python agent_import.py``. It imports nothing of this project but what it checks.
"""

import inspect
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

WEIGHTS = (".safetensors", ".gguf", ".onnx", ".bin", ".pth", ".pt", ".npz")
METHODS = ("get_batch_size", "batch_generate_response")


def find_faults(agent: Any) -> list[str]:
    """Return why the evaluator could not build or call this class; empty if it could."""
    if agent is None:
        return ["agents/user_config.py defines no UserAgent"]
    if not inspect.isclass(agent):
        return [f"UserAgent is no class but {type(agent).__name__}"]
    missing = [name for name in METHODS if not callable(getattr(agent, name, None))]
    missing += [name for name in getattr(agent, "__abstractmethods__", ()) if name not in missing]
    faults = [f"UserAgent has no {', '.join(missing)}"] if missing else []
    for what, function, arguments in (
        ("UserAgent", agent, {"search_pipeline": None}),
        (
            "batch_generate_response",
            getattr(agent, METHODS[1], None),
            {"queries": [], "images": [], "message_histories": []},
        ),
    ):
        if callable(function):
            me = [] if function is agent else [None]  # the agent itself
            try:
                inspect.signature(function).bind(
                    *me, *([] if not me else arguments.values()), **({} if me else arguments)
                )
            except TypeError as error:
                faults.append(f"{what} is called with {', '.join(arguments)}, and has {error}")
            except ValueError:  # written in C
                continue
    return faults


def main() -> None:
    """Import the agent, look at it, and report."""
    opened: list[str] = []

    def hook(event: str, details: tuple[Any, ...]) -> None:
        if event == "open" and str(details[0]).endswith(WEIGHTS):
            opened.append(str(details[0]))

    root = Path.cwd().resolve()
    sys.path[0] = str(root)  # in place of the folder of this file
    sys.addaudithook(hook)
    began = time.process_time()
    import agents.user_config as module

    report: dict[str, Any] = {
        "seconds": time.process_time() - began,
        "torch": "torch" in sys.modules,
        "weights": opened[:],
    }
    agent, file = getattr(module, "UserAgent", None), Path(module.__file__).resolve()
    faults = (
        find_faults(agent)
        if file.is_relative_to(root)
        else [f"agents.user_config is imported from {file}, not from the image"]
    )
    is_ours = any(base.__module__ == "agents.crag_agent" for base in getattr(agent, "__mro__", ()))
    if is_ours and not faults:
        os.environ.setdefault("CRAG_PROFILE", "gpu")  # the evaluator has one
        from agents.settings.agent_config import AgentConfig
        from agents.settings.stage_needs import list_roles

        try:
            config = AgentConfig.from_environment()
            list_roles(config.settings, config.prompts)  # reads the prompts of all stages
        except Exception as error:  # noqa: BLE001 - whatever ends the agent there
            faults.append(f"preset, profile or prompts cannot be read: {type(error).__name__}: {error}")
    print(json.dumps({**report, "faults": faults, "is_ours": is_ours}))


if __name__ == "__main__":
    main()
