"""What a borrowed hour on a GPU is for: latencies, constants of the simulation and memory, measured and reported in one file."""
