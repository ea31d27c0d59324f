"""Files: models, ONNX graphs and tables.

Anybody may have written a file. Each reader checks sizes and types first, and its error says what is wrong. A reader
imports or calls a name from a file only if the name is on a list of trusted ones.
"""

from slabsvm.files.models import ModelFileError, load, save
from slabsvm.files.onnx import register_with_skl2onnx, to_onnx

__all__ = ["ModelFileError", "load", "register_with_skl2onnx", "save", "to_onnx"]
