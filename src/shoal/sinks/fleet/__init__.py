"""Outputs of a fleet: one elected worker at a time writes an output from the item streams of the store."""
