"""Open-set recognition on UCI Letter, beside a closed-set classifier."""
