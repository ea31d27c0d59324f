"""Monitoring: whether the distribution of a stream of new rows has changed since a detector was fitted."""
