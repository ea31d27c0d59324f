"""A slab to play with: a page in a browser, and the server on the loopback address that fits what the page shows.

`page/` holds the page, which also runs without a server, by a solver of its own in JavaScript; `scripts` lists its
files. `question` says what a page may ask, `answer` fits it, `table` hands a table's columns over, and `server` is what
listens. starlette and uvicorn, the optional extra `slabsvm[explore]`, are imported in this folder alone.
"""
