"""Programs around the agent: terminal, web page, server, and the check before a submission."""
