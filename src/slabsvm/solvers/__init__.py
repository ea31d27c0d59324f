"""Solvers of the Dual: each takes a Dual and a Gram, and returns a Solution with its certificate."""
