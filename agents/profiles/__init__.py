"""The machine: profiles with their limits, the loaded model of each role, where weights are, what can be reached."""
