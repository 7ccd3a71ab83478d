"""Debian's Chromium on a page of this computer, failing on anything that the page must never do."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect, sync_playwright

CHROMIUM = Path("/usr/bin/chromium")
_FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
_LISTEN = """() => {
  window.violations = [];
  const tell = (event) => window.violations.push(event.violatedDirective + " " + event.blockedURI);
  document.addEventListener("securitypolicyviolation", tell);
}"""


@contextmanager
def browser_page(**options: object) -> Generator[Page]:
    """A page in a new browser. At its end: no error in it, no violation of its policy, no request to another host."""
    if not CHROMIUM.exists():
        pytest.skip("NOT RUN: there is no /usr/bin/chromium; make test-tools installs it as root")
    wrong: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=_FLAGS)
        try:
            page = browser.new_page(ignore_https_errors=True, **options)  # type: ignore[arg-type]
            page.set_default_timeout(20_000)
            expect.set_options(timeout=20_000)
            page.add_init_script(f"({_LISTEN})()")
            page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
            page.on("request", lambda request: wrong.extend(_elsewhere(request.url)))
            yield page
            wrong += page.evaluate("window.violations ?? []")
        finally:
            browser.close()
    assert not wrong, wrong


def _elsewhere(url: str) -> list[str]:
    parts = urlsplit(url)
    return [] if parts.scheme in ("data", "blob") or parts.hostname in ("127.0.0.1", "localhost") else [f"asked {url}"]


@contextmanager
def dashboard(kubeconfig: Path) -> Generator[str]:
    """`tarmac dashboard` of a kubeconfig; the address that it prints."""
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
