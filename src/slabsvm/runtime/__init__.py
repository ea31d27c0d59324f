"""How code runs: threads, all-or-nothing methods, the line that a warning points to, libraries of extras."""
