"""Strings in, strings out: cleaning, wiki markup, orders to the model, refusals, replies in JSON."""
