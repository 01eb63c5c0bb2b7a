"""Asking a model: prompts, requests, replies that are read."""
