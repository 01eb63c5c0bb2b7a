"""The searches and what they return: hits, web pages, pictures; what opens and builds an index."""
