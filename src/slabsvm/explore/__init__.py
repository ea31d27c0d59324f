"""A slab to play with: a page in a browser, with a solver of its own in JavaScript.

`page/` holds the page's files, which the site shows as they are; `html` makes one file of them, with a table inside.
"""
