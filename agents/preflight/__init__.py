"""Checks before a submission: ``python -m agents.preflight`` says what would fail and what to do about it."""
