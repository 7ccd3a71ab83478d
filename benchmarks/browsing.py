"""The dashboard's costs in a real Chromium: time until it shows content, the browser's CPU time, and memory.

Each run opens a new browser with an empty cache and the session of the first: the time is from the navigation to the
frame that shows the content, by the browser's own clock.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

from tests.dashboard.browser import browser_page, dashboard

_SESSION = "tarmac-session"
# Records when an element first appears, and every task that blocked the page.
_OBSERVE = """(selector) => {
  window.tasks = [];
  new PerformanceObserver((list) => list.getEntries().forEach((each) => window.tasks.push(each.duration)))
    .observe({ type: "longtask", buffered: true });
  const look = () => {
    if (document.querySelector(selector)) window.appeared = performance.now();
    else requestAnimationFrame(look);
  };
  look();
}"""
_SCROLL = """(seconds) => new Promise((done) => {
  const box = document.querySelector(".scroll");
  const begun = performance.now();
  let frames = 0;
  const step = () => {
    frames += 1;
    box.scrollTop = (box.scrollTop + 48) % Math.max(1, box.scrollHeight - box.clientHeight);
    const passed = performance.now() - begun;
    if (passed < seconds * 1000) requestAnimationFrame(step);
    else done((1000 * frames) / passed);
  };
  requestAnimationFrame(step);
})"""
# Returns milliseconds from an action to the frame in which the list shows its result.
_ACT = """async (action) => {
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const count = () => document.querySelector("main .filter .muted")?.textContent;
  const before = count();
  const begun = performance.now();
  let shown;
  if (action === "sort") {
    document.querySelector("main thead button").click();
    shown = () => document.querySelector("main thead th").getAttribute("aria-sort") !== "none";
  } else if (action === "filter") {
    const field = document.querySelector("main [data-filter]");
    field.value = "rolled";
    field.dispatchEvent(new Event("input", { bubbles: true }));
    shown = () => count() !== before;
  } else {
    location.hash = action;
    shown = () => document.querySelector("main tbody tr th") && count()?.endsWith(" of 10000");
  }
  while (!shown()) await frame();
  await frame();
  return performance.now() - begun;
}"""
_HIDE = """() => {
  Object.defineProperty(document, "hidden", { get: () => true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""
_LOADED = """() => performance.getEntriesByType("resource").concat(performance.getEntriesByType("navigation"))
  .filter((each) => each.name.includes("/dashboard/")).reduce((sum, each) => sum + each.encodedBodySize, 0)"""


class Dashboard:
    """A running `tarmac dashboard`, and a session for browsers."""

    def __init__(self, address: str) -> None:
        self._base = address.partition("#")[0]
        with browser_page() as page:
            page.goto(address)
            page.wait_for_selector("main h1")
            self._session: str = page.evaluate(f"sessionStorage.getItem({_SESSION!r})")

    @contextmanager
    def opened(self, fragment: str, selector: str, timeout: float = 60) -> Generator[Page]:
        """Yield a new browser at a view, once the view has content."""
        with browser_page() as page:
            page.add_init_script(f"sessionStorage.setItem({_SESSION!r}, {json.dumps(self._session)})")
            page.add_init_script(f"({_OBSERVE})({json.dumps(selector)})")
            page.goto(self._base + fragment)
            page.wait_for_selector(selector, timeout=timeout * 1000)
            yield page

    def milliseconds(self, fragment: str, selector: str) -> float:
        """Return the time from opening a view until it has content."""
        with self.opened(fragment, selector) as page:
            return appeared(page)


@contextmanager
def dashboard_of(kubeconfig: Path) -> Generator[Dashboard]:
    """A dashboard of a planet."""
    with dashboard(kubeconfig) as address:
        yield Dashboard(address)


def appeared(page: Page) -> float:
    """Return the milliseconds until the view had content."""
    page.wait_for_timeout(50)  # the frame after
    return page.evaluate("window.appeared")


def loaded_bytes(page: Page) -> int:
    """Return the transferred bytes of the page itself, compressed as sent."""
    return page.evaluate(_LOADED)


def longest_task(page: Page) -> float:
    """Return milliseconds; 0 when none was long enough to be counted, which is 50."""
    return max(page.evaluate("window.tasks"), default=0.0)


@contextmanager
def traced_tasks(page: Page) -> Generator[list[float]]:
    """Yield a list that has, after the block, the CPU milliseconds of each task of the page.

    A task that waits for a processor is not longer by that, so this holds on a machine that other programs load.
    """
    devtools: Any = page.context.new_cdp_session(page)
    events: list[dict[str, Any]] = []
    complete: list[bool] = []
    found: list[float] = []
    devtools.on("Tracing.dataCollected", lambda part: events.extend(part["value"]))
    devtools.on("Tracing.tracingComplete", lambda _: complete.append(True))
    devtools.send("Tracing.start", {"categories": "toplevel", "transferMode": "ReportEvents"})
    yield found
    devtools.send("Tracing.end")
    while not complete:
        page.wait_for_timeout(100)
    found += _of_the_page(events)


def _of_the_page(events: list[dict[str, Any]]) -> list[float]:
    """Return the CPU milliseconds of tasks on the busiest main thread: other renderers have nothing to do."""
    mains = {
        (each["pid"], each["tid"])
        for each in events
        if each["name"] == "thread_name" and each["args"]["name"] == "CrRendererMain"
    }
    tasks: dict[tuple[int, int], list[float]] = {main: [] for main in mains}
    for each in events:
        if each["name"] == "ThreadControllerImpl::RunTask" and (each["pid"], each["tid"]) in mains:
            tasks[each["pid"], each["tid"]].append(each.get("tdur", 0) / 1000)
    return max(tasks.values(), key=sum)


def forget_tasks(page: Page) -> None:
    """Reset the tasks after opening."""
    page.evaluate("window.tasks = []")


def frames_while_scrolling(page: Page, seconds: float) -> float:
    """Return the frames per second."""
    return page.evaluate(_SCROLL, seconds)


def milliseconds_of(page: Page, action: str) -> float:
    """Return the milliseconds of `sort` or `filter` in the open list, or of opening it by its fragment."""
    return page.evaluate(_ACT, action)


def heap_mb(page: Page) -> float:
    """Return the heap of JavaScript, after garbage collection."""
    devtools: Any = page.context.new_cdp_session(page)
    devtools.send("HeapProfiler.collectGarbage")
    devtools.send("Performance.enable")
    found = {each["name"]: each["value"] for each in devtools.send("Performance.getMetrics")["metrics"]}
    return found["JSHeapUsedSize"] / 1e6


def hide(page: Page) -> None:
    """Bring another tab to the front."""
    page.evaluate(_HIDE)
