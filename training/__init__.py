"""Training data from recorded runs, fine-tuning of the chat models, and the small classifiers of the agent."""
