"""Conformal p-values from scores of held-out positives, and the detector that rejects at a false-alarm rate."""
