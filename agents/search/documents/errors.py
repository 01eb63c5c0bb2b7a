"""Errors of readers of documents."""


class UnreadableError(ValueError):
    """A document cannot be read; the message is the reason, in one line."""
