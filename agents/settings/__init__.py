"""Presets and the configuration of a run."""
