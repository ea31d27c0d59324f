"""AutoSlabSVM and its members, and the detector that trims outliers from what it learns."""
