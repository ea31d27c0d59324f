"""The libraries of the extra "onnx", which are imported where they are needed."""

from __future__ import annotations

import importlib


def require(library: str) -> None:
    """Import a library, or raise ImportError with what to install."""
    try:
        importlib.import_module(library)
    except ImportError as error:
        raise ImportError(f"This needs {library}, which is not installed: pip install 'slabsvm[onnx]'.") from error
