"""Names of an estimator's parameters, read off its signature once."""

from __future__ import annotations

from typing import Any

# By class.
_NAMES: dict[Any, tuple[str, ...]] = {}


class SignatureOnce:
    """A base, before scikit-learn's, that remembers the names of each class's parameters.

    `clone`, `get_params` and every fit ask for them, and each time a signature is inspected for .05 ms.
    """

    @classmethod
    def _get_param_names(cls) -> list[str]:
        if cls not in _NAMES:
            _NAMES[cls] = tuple(super()._get_param_names())  # type: ignore[misc]  # scikit-learn's, which is behind it
        return list(_NAMES[cls])
