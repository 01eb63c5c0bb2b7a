"""From recorded runs to training data, adapters, routers and heads.

It may import the agent and the evaluation.
"""
