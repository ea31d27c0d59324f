"""All that the paper prints: its experiments as one run, and a page with a verdict on each of its numbers."""
