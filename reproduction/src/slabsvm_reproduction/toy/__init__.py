"""The paper's experiment on points of the plane."""
