"""Run the agent over a CRAG-MM data set and score its answers; ``python local_evaluation.py --help`` says how."""

from __future__ import annotations

import sys

from evaluation.run.command import main

if __name__ == "__main__":
    sys.exit(main())
