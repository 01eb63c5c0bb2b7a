"""The methods: what the papers compute and decide, as functions that know no model's library and no stage."""
