"""How code runs here: threads, compilation, methods that change all or nothing, and the line of a warning."""
