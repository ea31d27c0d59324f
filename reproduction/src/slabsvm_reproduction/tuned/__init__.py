"""Nine methods tuned alike on UCI Letter, with positives alone."""
