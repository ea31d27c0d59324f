"""How code runs here: threads, compilation, all-or-nothing methods, the line of a warning, libraries of extras."""
