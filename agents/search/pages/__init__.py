"""Whole web pages and pictures by URL: fetching, the caches, the main text, reading it in bounded time."""
