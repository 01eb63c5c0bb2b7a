"""What runs beneath stages and models: deadlines, time estimates, worker threads and processes, loaded models, start-up, files, secrets."""
