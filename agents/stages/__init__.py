"""The stages that several presets share, one file each: what it does, its options, its prompts and models."""
