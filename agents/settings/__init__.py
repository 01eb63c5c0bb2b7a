"""Presets, profiles and the configuration of a run; look-up of names, paths and import paths."""
