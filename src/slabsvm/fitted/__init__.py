"""What a detector learns from, what a fit finds, and what is odd about it: values, without estimators."""
