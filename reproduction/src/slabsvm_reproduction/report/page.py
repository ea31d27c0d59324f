"""Pages: a template of the folder `templates` and values; jinja2 escapes whatever the values hold."""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from typing import TYPE_CHECKING, Any

from slabsvm_reproduction.report.markup import code_spans

if TYPE_CHECKING:
    from jinja2 import Environment


def page(template: str, **values: Any) -> str:
    """Fill a template; a value that it names and that is not given is an error."""
    return _templates().get_template(template).render(values)


@cache
def _templates() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    templates = Environment(
        loader=PackageLoader("slabsvm_reproduction.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    templates.filters["code_spans"] = code_spans
    templates.filters["base64"] = lambda content: b64encode(content).decode()
    return templates
