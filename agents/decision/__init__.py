"""The rules that decide whether an answer is given, and what a gate reads of a turn."""
