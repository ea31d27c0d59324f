"""How loops are compiled: the options that all have in common, and an optional cache on disk.

numba keeps compiled code beside the source, or in the user's cache folder, or in NUMBA_CACHE_DIR. Where none of them
can be written, or the kept code cannot be read, each process compiles its loops anew, and a line of the log "slabsvm"
says so.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable
from typing import Any

from slabsvm.runtime.blas import apart

# An interrupted import of numba leaves a part behind, with which none succeeds. It ships no types.
_caching: Any = apart(importlib.import_module, "numba.core.caching")
_numba: Any = importlib.import_module("numba")
_FunctionCache: Any = _caching.FunctionCache

# Not fastmath=True: it asserts that no infinity exists.
FASTMATH = frozenset({"nnan", "nsz", "reassoc", "contract"})

NOWHERE = (
    "Compiled code can be kept nowhere, so that each process compiles its loops anew, in 20 to 30 seconds; let "
    "NUMBA_CACHE_DIR name a folder that can be written"
)
UNREADABLE = "Compiled code that was kept cannot be read; it is compiled anew, and replaced where that can be done"

_logged: set[str] = set()


def compiler(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that compiles a loop at its first call; options are numba's, beside the common ones."""
    options = {"fastmath": set(FASTMATH), **options}

    def compiled(function: Callable[..., Any]) -> Any:
        loop = _numba.njit(nogil=True, **options)(function)
        # With NUMBA_DISABLE_JIT a loop is the plain function, which has nothing to keep.
        if loop is not function:
            try:
                loop._cache = _Cache(function)
            except (RuntimeError, OSError) as error:
                _log_once(NOWHERE, str(error))
        return loop

    return compiled


class _Cache(_FunctionCache):
    """numba's cache of one loop's code; where it fails, the loop is compiled."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the code for these types of arguments, or None where it is not there or cannot be read."""
        # Files that were cut short, overwritten or left by others can raise anything while they are unpickled.
        try:
            found = super().load_overload(sig, target_context)
            if found is None or tuple(found.signature.args) == tuple(sig):
                return found
            # Two processes that compile a loop for different types at once may give both the same file.
            reason = "it is of other types of arguments"
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
        _log_once(UNREADABLE, f"in {self.cache_path}: {reason}")
        try:
            self.flush()
        except OSError:  # an index that cannot be replaced either
            self.disable()
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the code for these types of arguments, if that can be done."""
        try:
            super().save_overload(sig, data)
        except Exception as error:  # the loop is compiled, though the next process must compile it again
            _log_once(NOWHERE, f"{type(error).__name__}: {error}")


def _log_once(what: str, reason: str) -> None:
    """Log a failure of the cache, once in each process: all loops share the cause."""
    if what not in _logged:
        _logged.add(what)
        logging.getLogger("slabsvm").warning("%s (%s).", what, reason)
