"""Before the agent runs: where the weights of its models are, and start-up."""
