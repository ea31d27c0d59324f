"""The demonstration: ten handwritten digits, each learned from its positives alone."""
