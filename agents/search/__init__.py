"""Image and web search: the gateway that all stages search through, hits, evidence passed with a call, the index builder."""
