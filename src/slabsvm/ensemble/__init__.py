"""AutoDetector, the detector by distances from neighbours, and the one that trims training rows."""
