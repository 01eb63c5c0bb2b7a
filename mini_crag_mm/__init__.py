"""The mini CRAG-MM benchmark: content, photographs and the scripts that build it."""
