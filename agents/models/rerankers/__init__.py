"""Rerankers: scores of pairs of a query and a passage."""
