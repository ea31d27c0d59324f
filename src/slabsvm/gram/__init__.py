"""Access to the Gram matrix K of the training samples, by blocks, products and its diagonal.

Solvers see K through this folder alone and never the data. How exactly K is known is said here too.
"""
