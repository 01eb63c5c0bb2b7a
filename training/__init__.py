"""Fits the small classifiers of the agent: the domain head and the search router. It may import the agent and the evaluation."""
