"""How exactly a Gram matrix can be known."""

# Where w = 0 is optimal, no gap below this share of the largest objective that the boxes allow can be told from
# rounding: the share of its diagonal to which a matrix in float64 is known.
ROUNDING_GAP = 1e-14
