"""How code runs here: threads, compilation, methods that change all or nothing, and whose line a warning points to."""
