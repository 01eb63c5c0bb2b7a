"""Presets, profiles and what one run is made of; the one look-up of everything that has a name."""
