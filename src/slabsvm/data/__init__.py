"""Rows as they come: which are equal, what they weigh, and how those are read that do not fit into memory.

Nothing here knows of kernels or models.
"""
