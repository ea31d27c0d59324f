"""Monitoring: whether a stream of new rows is still of the world that a detector has learned."""
