"""What has to hold before the agent runs: which models a preset loads, what memory they take, how long they take to start."""
