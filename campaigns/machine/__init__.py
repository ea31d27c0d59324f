"""Faults of the machine: what is done, who ends it in the middle, and what is there afterwards."""
