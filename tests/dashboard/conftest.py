"""One planet for the tests that only read it, with objects of all kinds: it takes a while to come up."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import nullcontext

import pytest
from playwright.sync_api import Page

from tests.dashboard.browser import described, one_browser
from tests.dashboard.views import fill_with_everything, revise
from tests.support.tarmac_process import TarmacProcess
from tools.dashboard import SOURCE, find_node, install


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the content of the page to the report of a failed test: a fixture does not learn of the failure."""
    report = yield
    if call.when == "call" and report.failed:
        pages = [each for each in getattr(item, "funcargs", {}).values() if isinstance(each, Page)]
        report.sections += [("page", described(each)) for each in pages]
    return report


@pytest.fixture(scope="package")
def full_planet(tmp_path_factory: pytest.TempPathFactory) -> Generator[TarmacProcess]:
    running = TarmacProcess(tmp_path_factory.mktemp("planet") / "data", "--runtime", "sim", command="up").start()
    try:
        fill_with_everything(running)
        revise(running)
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="module", autouse=True)
def browser(request: pytest.FixtureRequest) -> Generator[None]:
    """One browser for a file with pages in it; each page has a context of its own."""
    with one_browser() if hasattr(request.module, "browser_page") else nullcontext():
        yield


@pytest.fixture(scope="package")
def axe() -> str:
    """axe-core, to be evaluated in a page."""
    node = find_node()
    assert node is not None
    install(node)
    return (SOURCE / "node_modules" / "axe-core" / "axe.min.js").read_text()
