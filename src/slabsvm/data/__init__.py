"""Rows as they come: which are equal, what they weigh, and how those are read that do not fit into memory.

Also how files of any origin are opened and written. Nothing here knows of kernels or models.
"""
