"""Runs before any test module: Hugging Face's libraries read where their cache is when they are first imported."""

from agents.search.hub import use_local_hub

use_local_hub()
