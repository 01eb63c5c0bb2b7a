"""Turns the YAML under mini_crag_mm/content into photos, scenes, pages, an image KG and data sets."""
