"""Models in files without pickle: `saving` writes and reads them, and docs/reference/model-files.md states the format.

`archive` is the container, and a place in it; `kinds` and `arrays` say what values are there, `estimators` how a class
is kept. The other files state the parts of classes, all of which `saving` lists.
"""
