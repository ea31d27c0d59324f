"""p-values from scores of positives that were not learned, and the detector that rejects at a false-alarm rate."""
