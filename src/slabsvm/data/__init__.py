"""Distinct rows and their weights, checks of tables, and passes over rows that need not fit into memory.

Files of any origin are opened and written here too. Nothing here knows of kernels or models.
"""
