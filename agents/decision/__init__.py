"""The rules that decide whether an answer is given, one file each, and what a gate reads of a turn."""
