"""Texts, strings in and out: cleaning, wiki markup, orders to the model, refusals, replies that were cut."""
