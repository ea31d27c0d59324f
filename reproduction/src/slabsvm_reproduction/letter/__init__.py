"""UCI Letter: the paper's Table 1, and what the paper's planes cost."""
