"""Open sets: many classes, each known by its own detector, "unknown" as an answer, and the metrics of that."""
