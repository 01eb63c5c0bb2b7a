"""Time limits: deadlines, and threads and processes that can be given up."""
