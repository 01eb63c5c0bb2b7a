"""What sees: detectors, segmenters, printed text, embeddings and comparison of pictures."""
