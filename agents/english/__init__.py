"""Rules over English words, which replace the first look for text-only models."""
