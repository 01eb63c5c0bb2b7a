"""Checks before a submission: ``python -m apps.preflight`` prints each likely failure and its fix."""
