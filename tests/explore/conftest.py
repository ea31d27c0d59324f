"""Pages in a browser, whose faults fail the test."""

from typing import Any

import pytest

from browser import headless
from explored import FROM_FILE, WIDE, settled


@pytest.fixture(scope="module")
def browser():
    with headless() as found:
        yield found


@pytest.fixture
def opened(browser):
    """Open a page; what it writes on its console, or does not catch, fails the test."""
    contexts, faults = [], []

    def open_one(address: str, **options: Any) -> Any:
        contexts.append(browser.new_context(**{"viewport": WIDE, **options}))
        page = contexts[-1].new_page()
        page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(address)
        settled(page)
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert not faults


@pytest.fixture
def page(opened):
    """The page as a file, which answers by itself."""
    return opened(FROM_FILE)
