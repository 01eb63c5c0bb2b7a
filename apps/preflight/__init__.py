"""Checks before a submission: ``python -m apps.preflight`` says what would fail and what to do about it."""
