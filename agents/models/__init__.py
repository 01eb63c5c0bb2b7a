"""Adapters to models behind the protocols of base.py, the kinds that a profile may name, the cache of replies."""
