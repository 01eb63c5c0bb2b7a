"""Time limits: deadlines, estimates and plans of stages, seconds of dialogs, threads and processes that can be given up."""
