"""Six lists, ten followed logs and two terminals in the tabs of one browser: none waits for another.

A browser has six connections to a host, over all its tabs. Open streams must not use them, or the seventh would wait as
long as the tabs are open. So nothing is faked here: logs and shells come from a node.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import threading
from collections.abc import Generator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.dashboard.browser import browser_page, dashboard
from tests.server.streams.planet import Planet, planet
from tests.support.kubectl import kubectl_path

pytestmark = [pytest.mark.timeout(120)]
LOGS, TERMINALS = 10, 2
LISTS = {
    "core/v1/configmaps": {"apiVersion": "v1", "kind": "ConfigMap"},
    "core/v1/secrets": {"apiVersion": "v1", "kind": "Secret"},
    "core/v1/serviceaccounts": {"apiVersion": "v1", "kind": "ServiceAccount"},
    "core/v1/namespaces": {"apiVersion": "v1", "kind": "Namespace"},
    "rbac.authorization.k8s.io/v1/roles": {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role"},
    "scheduling.k8s.io/v1/priorityclasses": {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "value": 1,
    },
}


@contextmanager
def served(folder: Path) -> Generator[Planet]:
    """Serve in a thread of its own, since the browser's driver uses this one."""
    begun = Future[Planet]()
    over = asyncio.Event()

    async def serve() -> None:
        async with planet(folder) as made:
            begun.set_result(made)
            loops.append(asyncio.get_running_loop())
            await over.wait()

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:
            if not begun.done():
                begun.set_exception(error)
            raise

    loops = list[asyncio.AbstractEventLoop]()
    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield begun.result(60)
    finally:
        for loop in loops:
            loop.call_soon_threadsafe(over.set)
        thread.join()


def tab(page: Page, fragment: str) -> Page:
    """Open another tab of the same browser, with the session of the first."""
    with page.expect_popup() as opened:
        page.evaluate(f"window.open({fragment!r})")
    return opened.value


def applied(world: Planet) -> None:
    """Create one more object in each of the lists."""
    objects = [{**each, "metadata": {"name": "appears", "namespace": "default"}} for each in LISTS.values()]
    command = [kubectl_path(), "--kubeconfig", str(world.kubeconfig), "apply", "-f", "-"]
    body = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    subprocess.run(command, input=body, text=True, capture_output=True, check=True)


def test_lists_logs_and_terminals_at_once_and_none_waits_for_another(tmp_path: Path) -> None:
    with served(tmp_path) as world, dashboard(world.kubeconfig) as address, browser_page() as page:
        log = world.pods.logs / "1.log"
        log.write_text("2026-11-17T06:00:00.000000000Z stdout F begun\n")
        page.goto(address)
        expect(page.get_by_role("heading", name="Planet")).to_be_visible()
        lists = [tab(page, f"#/any/{each}") for each in LISTS]
        logs = [tab(page, "#/instances/default/web/logs") for _ in range(LOGS)]
        terminals = [tab(page, "#/instances/default/web/terminal") for _ in range(TERMINALS)]
        for each in lists:
            expect(each.get_by_label("Filter")).to_be_visible()
        for each in logs:
            expect(each.get_by_role("log")).to_have_text("begun")
        for each in terminals:
            expect(each.get_by_text("Connecting…")).to_have_count(0)
        # Now all streams are open, and every list changes.
        applied(world)
        with log.open("a") as more:
            more.write("2026-11-17T06:00:01.000000000Z stdout F goes on\n")
        for each in terminals:
            each.keyboard.type("echo $((6*7))\n")
        for each in lists:
            expect(each.get_by_role("link", name="appears")).to_be_visible()
        for each in logs:
            expect(each.get_by_role("log")).to_contain_text("goes on")
        for each in terminals:
            expect(each.locator(".console")).to_contain_text("42")
        page.evaluate("location.hash = '#/any/core/v1/configmaps/default/appears'")  # a request gets its response
        expect(page.locator("pre")).to_contain_text("appears")
