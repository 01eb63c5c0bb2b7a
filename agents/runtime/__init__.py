"""Before the agent runs: the roles that a preset needs, where the weights of its models are, and start-up."""
