"""The latency guard: what is run, how far, and until when, so that a call always ends in time."""
