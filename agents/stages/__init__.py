"""The stages, one file each: what it does, its options, the prompts and models that it uses."""
