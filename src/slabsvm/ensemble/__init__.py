"""AutoDetector, distances from neighbours, and the detector that trims outliers from what it learns."""
