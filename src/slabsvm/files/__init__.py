"""What leaves the process and comes back: model files, ONNX, tables.

A file is the work of others: whatever is read here is checked before it is believed, and an error says what is wrong
with it. Nothing that is read can name code.
"""

from slabsvm.files.models import ModelFileError, load, save
from slabsvm.files.onnx import register_with_skl2onnx, to_onnx

__all__ = ["ModelFileError", "load", "register_with_skl2onnx", "save", "to_onnx"]
