"""The quadratic program that every support vector model is, its solutions, and what follows from one.

`program` states the problem and its certificate; `solution` has what a solver returns, with its gap. Nothing here knows
of a model's name.
"""
