"""The papers, one file each: the stages, the rule of decision and the formulas that one paper alone has."""
