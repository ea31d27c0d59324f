"""Solvers of the program: each takes a Dual and access to K, and returns a Solution with its certificate.

Solvers never print, and know neither the data nor a model's name.
"""
