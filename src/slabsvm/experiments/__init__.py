"""Experiments as data: specifications go in, records come out, reports read the records."""
