"""The quadratic program of every support vector model, access to its kernel matrix K, and the solver.

`program` states the problem, its points and their certificate; `gram` gives K by blocks; `small` solves up to 2,000
samples in the compiled core, with left-out scores, and `loop` more, by the working sets of `working_set`. The solver
never prints, and knows neither the data nor a model's name.
"""
