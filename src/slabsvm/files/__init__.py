"""What leaves the process and comes back: model files, ONNX, tables.

A file is the work of others: whatever is read here is checked before it is believed, and an error says what is wrong
with it. Nothing that is read can name code.
"""

from slabsvm.files.archive import ModelFileError
from slabsvm.files.models import load, save

__all__ = ["ModelFileError", "load", "save"]
