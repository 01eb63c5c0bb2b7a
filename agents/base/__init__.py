"""What knows nothing of questions and answers: files, names, options of commands, secrets, a linear head, the hub, Ray."""
