"""The quadratic program that every support vector model is, its solutions, and what follows from one.

`program` states the problem and its certificate; `face` solves on the free variables; `leave_one_out` gives each
sample's score without itself, and `unlearning` the solutions without some samples. Nothing here knows of
a model's name.
"""
