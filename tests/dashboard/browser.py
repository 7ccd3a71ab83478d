"""Debian's Chromium on a page of this computer; fails on everything that the page must never do."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright
from playwright.sync_api import Error as PlaywrightError

CHROMIUM = Path("/usr/bin/chromium")
_LAUNCHER = Path(__file__).with_name("chromium")
_FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
_LISTEN = """() => {
  window.violations = [];
  const tell = (event) => window.violations.push(event.violatedDirective + " " + event.blockedURI);
  document.addEventListener("securitypolicyviolation", tell);
}"""


_shared: list[Browser] = []
_open: dict[Page, tuple[list[str], list[str]]] = {}  # problems of a page, and its failed requests


@contextmanager
def one_browser() -> Generator[Browser]:
    """One browser process for all pages within. Playwright's loop must not outlive it: other tests start their own."""
    if not CHROMIUM.exists():
        pytest.skip("NOT RUN: there is no /usr/bin/chromium; make test-tools installs it as root")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(_LAUNCHER), args=_FLAGS)
        _shared.append(browser)
        try:
            yield browser
        finally:
            _shared.remove(browser)
            browser.close()


@contextmanager
def browser_page(**options: object) -> Generator[Page]:
    """A page with cookies and storage of its own, in the shared browser or a new one.

    Fails at its end on an error in the page, a violation of its policy, or a request to another host.
    """
    wrong, failed = list[str](), list[str]()
    with nullcontext(_shared[-1]) if _shared else one_browser() as browser:
        page = browser.new_page(ignore_https_errors=True, **options)  # type: ignore[arg-type]
        try:
            page.set_default_timeout(20_000)
            expect.set_options(timeout=20_000)
            page.add_init_script(f"({_LISTEN})()")
            page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
            page.on("request", lambda request: wrong.extend(_elsewhere(request.url)))
            page.on("requestfailed", lambda request: failed.append(f"{request.url}: {request.failure}"))
            _open[page] = wrong, failed
            yield page
            wrong += page.evaluate("window.violations ?? []")
        except BaseException as error:
            error.add_note(described(page))
            raise
        finally:
            _open.pop(page, None)
            # An unfinished handler would fail in the next test, as the error of its browser.
            page.unroute_all(behavior="ignoreErrors")
            page.close()
    assert not wrong, wrong


def described(page: Page) -> str:
    """Return the content of an open page, as a help when a test fails."""
    wrong, failed = _open.get(page, ([], []))
    return f"the page showed {_shown(page)!r}; wrong with it: {wrong}; requests that failed: {failed}"


def _shown(page: Page) -> str:
    try:
        return page.evaluate("document.body.innerText")[:1000]
    except PlaywrightError as gone:
        return f"nothing: {gone}"


def _elsewhere(url: str) -> list[str]:
    parts = urlsplit(url)
    return [] if parts.scheme in ("data", "blob") or parts.hostname in ("127.0.0.1", "localhost") else [f"asked {url}"]


@contextmanager
def dashboard(kubeconfig: Path) -> Generator[str]:
    """Run `tarmac dashboard` with a kubeconfig; yield the address that it prints."""
    command = [sys.executable, "-m", "tarmac.apps.main", "dashboard", "--no-browser", "--port", "0"]
    process = subprocess.Popen(
        [*command, "--kubeconfig", str(kubeconfig)], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.fullmatch(r"tarmac dashboard (http://127\.0\.0\.1:\d+/dashboard/#code=\S+)\n", line)
        assert found, f"no address but {line!r}"
        yield found[1]
        process.terminate()
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
