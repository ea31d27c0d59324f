"""Training data, fitted models and diagnoses of fits: values, without estimators."""
