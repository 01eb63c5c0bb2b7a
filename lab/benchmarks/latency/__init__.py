"""Latency of presets on the competition's GPU, from the calls of their stages and a token-cost model."""
