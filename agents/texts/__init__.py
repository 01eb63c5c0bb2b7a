"""Texts: from retrieved pages, attributes, printed rows and replies to what a stage can use."""
