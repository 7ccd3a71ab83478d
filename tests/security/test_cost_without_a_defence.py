"""Requests that block other clients or answer 500, with each defence and without it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tarmac.api.kubernetes.core import limitranges as stored_limits
from tarmac.base import cpuset, duration, selectors
from tarmac.decide.egress import sources
from tarmac.decide.egress.openings import Openings
from tarmac.decide.reach import reachability
from tarmac.server.admission.nodes.mirrorpods import MirrorPods
from tarmac.server.admission.pods import limitranges
from tarmac.server.security.fairness import TURN, Fairness
from tarmac.server.subresources import plan
from tarmac.server.subresources.offloading import EXPLANATIONS
from tarmac.server.subresources.userqueue import UserQueue
from tests.attacking import TWICE
from tests.cost.measuring import serving as in_process
from tests.cost.test_shared_claims import sharing
from tests.security.tenants import mirror_of, pod, ready_nodes, tenant
from tests.security.test_fairness import NOISY, QUIET, run
from tests.security.wire import Json, Wire, serving
from tests.server.test_plans_in_turn import ALICE, BOB, planning
from tests.support.working import finished

PODS = "/api/v1/namespaces/evil/pods"
LIMITS = "/api/v1/namespaces/evil/limitranges"
SERVICES = 12  # that share a claim
LENGTH = 1_000_000  # characters
CHEAP = 0.010  # seconds of CPU; each of the texts takes at least three times as long without its limit


@pytest.fixture
async def wire(tmp_path: Path) -> AsyncGenerator[Wire]:
    async with serving(tmp_path) as running:
        yield running


def nothing(*_: object) -> None:
    return None


@TWICE
def test_external_services_that_share_a_claim(monkeypatch: pytest.MonkeyPatch, defended: bool) -> None:
    """Without the index each external service is compared with all other ones."""
    looked, wanted = 0, sources._wanted_keys  # pyright: ignore[reportPrivateUsage]

    def counted(*arguments: Any) -> Any:
        nonlocal looked
        looked += 1
        return wanted(*arguments)

    monkeypatch.setattr(sources, "_wanted_keys", counted)
    world, shared = sharing(SERVICES), Openings()
    for each in world.others:
        finished(sources.resolving(each, world, shared if defended else Openings()))
    assert looked <= 2 * SERVICES if defended else looked >= SERVICES**2


@TWICE
async def test_the_queue_of_a_user_with_64_expensive_requests(monkeypatch: pytest.MonkeyPatch, defended: bool) -> None:
    if not defended:
        monkeypatch.setattr(Fairness, "spend", nothing)
    fairness, order = Fairness(), list[str]()
    noisy = [asyncio.ensure_future(run(fairness, NOISY, 2 * TURN, order)) for _ in range(64)]
    await asyncio.sleep(0)
    await run(fairness, QUIET, TURN / 10, order)
    await asyncio.gather(*noisy)
    assert order.index("quiet") <= 2 if defended else order.index("quiet") == 64


@TWICE
async def test_plans_that_take_every_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, defended: bool) -> None:
    held, planned = threading.Event(), plan.planned_workload

    def hold(*arguments: Any) -> Any:
        held.wait(30)
        return planned(*arguments)

    monkeypatch.setattr(plan, "planned_workload", hold)
    if not defended:
        monkeypatch.setattr(plan, "PLANS", EXPLANATIONS)
        monkeypatch.setattr(UserQueue, "route", lambda _queue, answer: answer)
    async with in_process(tmp_path) as server:
        plans = [planning(server, ALICE) for _ in range(6)]
        await asyncio.sleep(0.1)
        why = asyncio.ensure_future(server.send("GET", "/api/v1/nodes/none/why", user=BOB))
        done, _ = await asyncio.wait([why], timeout=10 if defended else 1)
        held.set()
        await asyncio.gather(why, *plans)
    assert bool(done) is defended


LONG: dict[str, tuple[ModuleType, str, Callable[[str], object], str]] = {
    "duration": (duration, "_MAX_LENGTH", duration.parse_duration, "1h"),
    "selector": (selectors, "MAX_LENGTH", selectors.LabelMatcher.parse, "a,"),
    "CPUs": (cpuset, "_MAX_LENGTH", cpuset.CPUSet.parse, "1,"),
}


def seconds(parse: Callable[[str], object], text: str) -> float:
    began = time.thread_time()
    with suppress(ValueError):  # some are valid, if long
        parse(text)
    return time.thread_time() - began


@TWICE
@pytest.mark.parametrize("what", LONG)
def test_a_text_of_a_megabyte(monkeypatch: pytest.MonkeyPatch, defended: bool, what: str) -> None:
    module, limit, parse, part = LONG[what]
    if not defended:
        monkeypatch.setattr(module, limit, 10 * LENGTH)
    text = part * (LENGTH // len(part)) + "1"
    assert (seconds(parse, text) < CHEAP) is defended


@TWICE
async def test_a_port_that_looks_like_a_digit(wire: Wire, monkeypatch: pytest.MonkeyPatch, defended: bool) -> None:
    if not defended:
        monkeypatch.setattr(reachability, "port_number", lambda text: int(text) if text.isdigit() else None)
    evil = await tenant(wire, "evil")
    for name in ("from", "to"):
        assert (await evil.post(PODS, pod(name))).status == 201
    target = f"{PODS}/from/why?reach=pod/to&port=%C2%B2"
    assert (await evil.get(target)).status == (400 if defended else 500)


def limit_range(**limits: str) -> Json:
    item = {"type": "Container", **{field: {"cpu": text} for field, text in limits.items()}}
    metadata = {"name": "l", "namespace": "evil"}
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": {"limits": [item]}}


def with_floats(monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> None:
    monkeypatch.setattr(module, "six_places", lambda number, divisor: f"{number / divisor:f}")


@TWICE
@pytest.mark.parametrize("method", ["POST", "PATCH"])
async def test_a_limit_range_beyond_all_floats(
    wire: Wire, monkeypatch: pytest.MonkeyPatch, defended: bool, method: str
) -> None:
    if not defended:
        with_floats(monkeypatch, stored_limits)
    await tenant(wire, "evil")
    extreme = limit_range(max="1e308", min="1m", maxLimitRequestRatio="1e400")
    admin = wire.attacker(wire.pki.admin())
    if method == "POST":
        answer = await admin.post(LIMITS, extreme)
    else:
        assert (await admin.post(LIMITS, limit_range(max="2"))).status == 201
        answer = await admin.patch(f"{LIMITS}/l", {"spec": extreme["spec"]})
    assert answer.status == (422 if defended else 500)


@pytest.mark.parametrize("amount", ["1e308", "9" * 23])
async def test_extreme_limit_ranges_are_stored_changed_and_enforced(wire: Wire, amount: str) -> None:
    evil, admin = await tenant(wire, "evil"), wire.attacker(wire.pki.admin())
    assert (await admin.post(LIMITS, limit_range(max=amount, maxLimitRequestRatio="2"))).status == 201
    for body in (limit_range(max=amount, min="1n", maxLimitRequestRatio=amount), limit_range(max="1")):
        assert (await admin.patch(f"{LIMITS}/l", {"spec": body["spec"]})).status == 200
    for limit, request in ((amount, "1n"), ("1n", "1n"), (amount, amount), ("1", "1n")):
        body = pod("x", requests={"cpu": request})
        body["spec"]["containers"][0]["resources"]["limits"] = {"cpu": limit}
        assert (await evil.post(f"{PODS}?dryRun=All", body)).status in (201, 403)


@TWICE
async def test_a_pod_with_a_ratio_beyond_all_floats(
    wire: Wire, monkeypatch: pytest.MonkeyPatch, defended: bool
) -> None:
    if not defended:
        with_floats(monkeypatch, limitranges)
        monkeypatch.setattr(limitranges, "_MAX_INT64", 10**1000)
    evil, admin = await tenant(wire, "evil"), wire.attacker(wire.pki.admin())
    assert (await admin.post(LIMITS, limit_range(maxLimitRequestRatio="2"))).status == 201
    body = pod("x", requests={"cpu": "1m"})
    body["spec"]["containers"][0]["resources"]["limits"] = {"cpu": "1e308"}
    assert (await evil.post(PODS, body)).status == (403 if defended else 500)


@TWICE
async def test_a_mirror_pod_of_a_tenant(wire: Wire, monkeypatch: pytest.MonkeyPatch, defended: bool) -> None:
    if not defended:
        monkeypatch.setattr(MirrorPods, "admit", nothing)
    await ready_nodes(wire, "n1")
    evil = await tenant(wire, "evil")
    body = await mirror_of(wire, "n1", "m")
    assert (await evil.post(PODS, body)).status == (403 if defended else 201)
