"""Presets, what their stages need, and a preset under a profile as the configuration of a run."""
