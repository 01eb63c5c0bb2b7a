"""Encoders of texts, and of texts with pictures."""
