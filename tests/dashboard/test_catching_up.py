"""A page that lost its connection, or was hidden: it shows the age of its data, and ends like a newly opened page."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Page, WebSocket, expect

from tarmac.api.networking.cities import CITIES
from tests.dashboard.browser import browser_page, dashboard
from tests.dashboard.views import EXAMPLE, kubectl
from tests.soak import SOAK
from tests.support.tarmac_process import TarmacProcess

pytestmark = [pytest.mark.soak(minutes=1), pytest.mark.timeout(240)]
KILLS = 20 if SOAK else 5
REPLICAS = 2
UNSEEN_CITIES, UNSEEN = (tuple(CITIES)[:20], 100) if SOAK else (("DFW", "SEA"), 2)
"""Cities in which instances are replaced while the tab is hidden, and how many in each: 4, or 2,000 together."""
LOST = "The connection is lost"
STALL_SECONDS = 5
# Records rows that were ever shown twice at a time; observers see a mutation before it is painted.
_TWICE = """() => {
  window.twice = [];
  const look = () => {
    const names = [...document.querySelectorAll("main tbody th a")].map((each) => each.textContent);
    window.twice.push(...names.filter((each, at) => names.indexOf(each) !== at));
  };
  new MutationObserver(look).observe(document.body, { childList: true, subtree: true, characterData: true });
}"""
# Returns every row of a list, of which the page holds only the visible ones and a few around.
_ALL_ROWS = """async () => {
  const rows = new Map();
  const box = document.querySelector("main .scroll");
  for (let to = 0; to === 0 || to < box.scrollHeight; to += box.clientHeight) {
    box.scrollTop = to;
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    for (const row of box.querySelectorAll("tbody tr:not([aria-hidden])")) {
      const cells = [...row.cells].map((each) => each.innerText.replace(/^[●◐✕○◌]\\s*/, ""));
      rows.set(row.getAttribute("aria-rowindex"), cells.join("\\t"));
    }
  }
  box.scrollTop = 0;
  return [...rows.values()];
}"""
_HIDE = """(hidden) => {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


@contextmanager
def landed(folder: Path, replicas: int, cities: Sequence[str] = ("DFW", "SEA")) -> Generator[TarmacProcess]:
    """Create cities with so many instances each, on few nodes: it may have to start twenty times."""
    flags = ("--runtime", "sim", "--cities", ",".join(cities), "--sim-nodes", str(1 + replicas // 50))
    running = TarmacProcess(folder / "data", *flags, command="up").start()
    try:
        scale = f"minReplicas: {replicas}\n        instanceManagementPolicy: Parallel"
        manifest = EXAMPLE.read_text().replace("minReplicas: 1", scale)
        kubectl(running, "apply", "-f", "-", stdin=manifest.replace('["DFW", "SEA"]', json.dumps(cities)))
        kubectl(running, "wait", "--for=condition=Ready", "workload/web", "--timeout=300s")
        yield running
    finally:
        running.stop()


@pytest.fixture
def planet(tmp_path: Path) -> Generator[TarmacProcess]:
    with landed(tmp_path, REPLICAS) as running:
        yield running


def revise(planet: TarmacProcess, note: str, **rollout: str) -> None:
    """Start a rollout."""
    change = {"spec": {"template": {"metadata": {"annotations": {"note": note}}}, "rollout": rollout}}
    kubectl(planet, "patch", "workload", "web", "--type=merge", "-p", json.dumps(change))


def settled(planet: TarmacProcess) -> None:
    """Wait for the end of the rollout."""
    kubectl(planet, "wait", "--for=condition=Ready", "workload/web", "--timeout=300s")


def listed(planet: TarmacProcess) -> list[list[str]]:
    """Return kubectl's list of instances, without their ages."""
    printed = kubectl(planet, "get", "instances", "--no-headers").splitlines()
    return sorted(line.split()[:-1] for line in printed)


def uids(planet: TarmacProcess) -> set[str]:
    return set(kubectl(planet, "get", "instances", "-o", "jsonpath={.items[*].metadata.uid}").split())


def shown(page: Page) -> list[list[str]]:
    """Return the same of the page, which shows the status beside the name."""
    rows = [row.split("\t") for row in page.evaluate(_ALL_ROWS)]
    return sorted([name, city, node, status, *rest[:-1]] for name, status, city, node, *rest in rows)


def comes_to_be_true(page: Page, planet: TarmacProcess) -> None:
    """Wait until the page equals kubectl's list; both are read again, since a rollout may continue."""
    for _ in range(50):
        if shown(page) == listed(planet):
            return
        page.wait_for_timeout(200)  # the page updates row by row
    assert shown(page) == listed(planet)


def test_the_server_is_killed_during_rollouts_and_the_page_ends_as_kubectl_says(planet: TarmacProcess) -> None:
    with dashboard(planet.kubeconfig) as address, browser_page() as page:
        page.goto(address)
        page.evaluate("location.hash = '#/instances'")
        expect(page.locator("main tbody th")).to_have_count(2 * REPLICAS)
        page.evaluate(_TWICE)
        for each in range(KILLS):
            if each % 10 == 0:
                revise(planet, f"kill {each}")
            planet.kill()
            if each % 10 == 0:
                expect(page.get_by_text(LOST)).to_contain_text(re.compile(r"is of \d+:\d\d:\d\d"))
            planet.start()
        settled(planet)
        expect(page.get_by_text(LOST)).to_have_count(0, timeout=40_000)
        comes_to_be_true(page, planet)
        assert page.evaluate("window.twice") == []
        for view in ("#/planet", "#/workloads/default/web/why", "#/nodes"):
            page.evaluate(f"location.hash = '{view}'")
            expect(page.locator("main table").first).to_be_visible()
            expect(page.get_by_role("alert")).to_have_count(0)


def test_the_bar_is_in_views_without_a_table_too_and_answers_are_asked_for_again(planet: TarmacProcess) -> None:
    name = kubectl(planet, "get", "instances", "-o", "jsonpath={.items[0].metadata.name}")
    with dashboard(planet.kubeconfig) as address, browser_page() as page:
        page.goto(address)
        expect(page.locator("svg.map").get_by_text(f"DFW {REPLICAS}/{REPLICAS}")).to_be_visible()
        planet.kill()
        expect(page.get_by_text(LOST)).to_be_visible()
        planet.start()
        expect(page.get_by_text(LOST)).to_have_count(0)
        page.evaluate(f"location.hash = '#/instances/default/{name}/why'")
        expect(page.get_by_role("region", name="Why")).to_contain_text("ready")
        planet.kill()
        expect(page.get_by_text(LOST)).to_be_visible()
        expect(page.get_by_role("region", name="Why")).to_contain_text("ready")  # old, and marked as old
        planet.start()
        expect(page.get_by_text(LOST)).to_have_count(0)
        page.route(lambda url: "/why?" in url, lambda route: route.fulfill(status=503, json={"message": "later"}))
        expect(page.get_by_text("The server gives no newer answer: some of this page is of")).to_be_visible()
        expect(page.get_by_text(LOST)).to_have_count(0)  # it is there, and everything else is updated
        page.unroute_all()
        expect(page.get_by_text("The server gives no newer answer")).to_have_count(0)


def test_a_server_that_hangs_is_noticed_within_five_seconds(planet: TarmacProcess) -> None:
    with dashboard(planet.kubeconfig) as address, browser_page() as page:
        page.goto(address)
        expect(page.locator("svg.map").get_by_text(f"DFW {REPLICAS}/{REPLICAS}")).to_be_visible()
        page.wait_for_timeout(STALL_SECONDS * 1000)  # the heartbeat has had a response, and repeats
        expect(page.get_by_text(LOST)).to_have_count(0)
        os.kill(planet.pid, signal.SIGSTOP)  # its connections stay open, and silent
        try:
            expect(page.get_by_text(LOST)).to_be_visible(timeout=STALL_SECONDS * 1000)
            expect(page.get_by_text(re.compile(r"^No answer for \d+ s$"))).to_be_visible()
        finally:
            os.kill(planet.pid, signal.SIGCONT)
        expect(page.get_by_text(LOST)).to_have_count(0)
        expect(page.get_by_text("Live", exact=True)).to_be_visible()


def test_a_tab_hidden_during_a_rollout_and_shown_again_is_as_a_page_opened_just_now(tmp_path: Path) -> None:
    count = UNSEEN * len(UNSEEN_CITIES)
    with (
        landed(tmp_path, UNSEEN, UNSEEN_CITIES) as planet,
        dashboard(planet.kubeconfig) as address,
        browser_page() as page,
    ):
        open_sockets = list[WebSocket]()
        asked = list[str]()

        def opened(socket: WebSocket) -> None:
            open_sockets.append(socket)

        page.on("websocket", opened)
        page.clock.install()
        page.goto(address)
        page.evaluate("location.hash = '#/instances'")
        expect(page.get_by_text(f"{count} of {count}")).to_be_visible()
        before = shown(page)
        page.evaluate(_HIDE, True)
        page.clock.fast_forward(31_000)
        for _ in range(100):
            if all(each.is_closed() for each in open_sockets):
                break
            page.wait_for_timeout(50)  # closing waits for the other side
        assert all(each.is_closed() for each in open_sockets)
        page.on("request", lambda request: asked.append(request.url))
        page.on("websocket", lambda socket: asked.append(socket.url))
        old = uids(planet)
        revise(planet, "unseen", waves="AllAtOnce", maxUnavailable="100%")
        settled(planet)
        assert not old & uids(planet)
        page.clock.fast_forward(60_000)
        assert shown(page) == before
        assert asked == []
        page.evaluate(_HIDE, False)
        comes_to_be_true(page, planet)
        expect(page.get_by_text(LOST)).to_have_count(0)
        text = {view: looked(page, view) for view in ("#/instances", "#/planet", "#/workloads")}
        page.reload()
        for view, cells in text.items():
            for _ in range(50):
                if looked(page, view) == cells:
                    break
                page.wait_for_timeout(200)  # a column is empty until its own list has arrived
            assert looked(page, view) == cells


def test_a_list_has_one_watch_at_a_time_however_often_the_tab_comes_and_goes(planet: TarmacProcess) -> None:
    with dashboard(planet.kubeconfig) as address, browser_page() as page:
        watches = list[WebSocket]()

        def opened(socket: WebSocket) -> None:
            if "/configmaps?" in socket.url:
                watches.append(socket)

        page.on("websocket", opened)
        page.goto(address)
        page.evaluate("location.hash = '#/any/core/v1/configmaps'")
        expect(page.locator("main tbody th").first).to_be_visible()
        for _ in range(5):
            planet.kill()
            expect(page.get_by_text(LOST)).to_be_visible()
            planet.start()
            for hidden in (True, False) * 3:  # each time it becomes visible, it opens the watch at once
                page.evaluate(_HIDE, hidden)
            expect(page.get_by_text(LOST)).to_have_count(0)
        page.wait_for_timeout(2000)  # longer than the pause after which a second one would come
        assert len([each for each in watches if not each.is_closed()]) == 1


def looked(page: Page, view: str) -> list[str]:
    """Return the cells of a view, without ages."""
    page.evaluate(f"location.hash = '{view}'")
    expect(page.locator("main tbody th, main tbody td").first).to_be_visible()
    cells: list[str] = page.evaluate(_ALL_ROWS)
    return sorted(re.sub(r"\t(\d+[smhd])+(?=\t|$)", "", each) for each in cells)
