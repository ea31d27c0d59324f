"""What leaves the process and comes back: model files, ONNX, tables.

A file is the work of others. Its form is checked before it is believed, and an error says what is wrong with it. What
it names is imported or called only if it is trusted.
"""

from slabsvm.files.models import ModelFileError, load, save
from slabsvm.files.onnx import register_with_skl2onnx, to_onnx

__all__ = ["ModelFileError", "load", "register_with_skl2onnx", "save", "to_onnx"]
