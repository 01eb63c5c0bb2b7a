"""Checks before a submission: ``python -m apps.preflight`` says what would fail and how to fix it."""
