"""Open-set recognition: one detector for each known class, "unknown" as an answer, and metrics."""
