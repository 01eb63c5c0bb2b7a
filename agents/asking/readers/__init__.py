"""Readers of replies, one file a form: what a reply says, and whether it is whole."""
