"""Models: the protocols of each role, the kinds that a profile may name, the cache of replies."""
