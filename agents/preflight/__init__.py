"""Would this repository survive a submission? ``python -m agents.preflight`` says so, with the mend of what would not."""
