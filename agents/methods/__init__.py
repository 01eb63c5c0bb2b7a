"""What the papers compute and decide, as functions that know no prompt, no model's library and no stage."""
