"""Generator that turns the YAML under mini_crag_mm/content into photos, scenes, pages and KG."""
