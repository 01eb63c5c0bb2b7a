"""Agents made to fail: scripted models and searches with one fault at a time, over the stages of every preset."""
