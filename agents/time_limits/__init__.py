"""Time limits: deadlines, estimates and plans of stages, dialogs' seconds, threads and processes that can be given up."""
