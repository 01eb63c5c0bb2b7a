"""Would this repository survive a submission? ``python -m agents.preflight`` says so, and what to do about what would not."""
