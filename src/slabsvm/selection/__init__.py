"""Choosing a detector and its parameters with positives alone."""
