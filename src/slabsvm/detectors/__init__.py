"""The one-class models, a file each, behind scikit-learn's outlier contract; and the answers of any fitted model.

A detector states its program, its score, and what is odd about a fit. scikit-learn begins in this folder.
"""
