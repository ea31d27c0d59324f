"""How code runs here: threads, all-or-nothing methods, the line of a warning, libraries of extras."""
