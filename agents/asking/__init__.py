"""Asking a model: prompts, requests, readers of replies."""
