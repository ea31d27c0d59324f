"""Objects of Pascal VOC, by their histograms of oriented gradients, against background."""
