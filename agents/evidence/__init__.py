"""Evidence: search results cut to chunks, chunks as passages for prompts and rerankers."""
