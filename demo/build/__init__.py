"""Turns the YAML under demo/content into photos, scenes, pages, an image KG and data sets."""
