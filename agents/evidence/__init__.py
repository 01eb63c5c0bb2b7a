"""Evidence: search results cut into chunks, chunks as prompts and rerankers read them."""
