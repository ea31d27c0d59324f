"""The quadratic program of every support vector model, its solutions, and what follows from a solution.

`program` states the problem and its certificate; `solution` has what a solver returns, with its gap. Nothing here knows
of a model's name.
"""
