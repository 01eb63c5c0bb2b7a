"""Readers of PDF, Word and Excel files."""
