"""The latency of presets on the competition's GPU, from the calls that their stages make and a token-cost model."""
