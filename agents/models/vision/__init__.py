"""Vision without a chat model: detectors, segmenters, printed text, embeddings and comparison of pictures."""
