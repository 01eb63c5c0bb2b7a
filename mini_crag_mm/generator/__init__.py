"""Writes pages and image KG of the YAML under mini_crag_mm/content, and checks the set."""
