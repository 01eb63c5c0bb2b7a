"""Agents side by side: the organiser's starter kit and our presets, over the same questions, the same search and one language model."""
