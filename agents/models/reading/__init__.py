"""The parts of the extractive reader: what a question asks for, where sentences end, which spans could answer."""
