"""Run the agent over a CRAG-MM data set and score its answers; ``python local_evaluation.py --help`` says how."""

from __future__ import annotations

import sys

try:
    from agents.time_limits.signals import run_program
    from evaluation.run.command import main
except ModuleNotFoundError as error:  # a library: this is not the environment that has them
    sys.exit(
        f"error: {error}; run `make install` once, then `source .venv/bin/activate`, or use .venv/bin/python local_evaluation.py"
    )

if __name__ == "__main__":
    run_program(main)
