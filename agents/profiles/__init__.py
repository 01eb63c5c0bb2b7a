"""The machine: profiles, the loaded models of their roles, where weights are, what can be reached."""
