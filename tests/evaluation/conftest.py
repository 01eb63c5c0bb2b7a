"""Fixtures of several files."""

from tests.evaluation.kits import kit, make, own_python

__all__ = ["kit", "make", "own_python"]
