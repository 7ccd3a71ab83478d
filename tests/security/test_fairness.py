"""Clients share the loop by the processor time of their requests: a noisy client waits only for itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from tarmac.api.status import TooManyRequests
from tarmac.http.messages import Request
from tarmac.server.security.fairness import TURN, TURN_ALONE, Fairness, flow_of
from tarmac.server.security.users import ANONYMOUS
from tests.security.conftest import user


def request(name: str, address: str = "") -> Request:
    return Request("GET", "/", user=user(name), peer_address=address)


NOISY, QUIET, ADMIN = request("noisy"), request("quiet"), request("admin")


async def finish(waiting: Awaitable[None] | None) -> None:
    if waiting is not None:
        await asyncio.wait_for(waiting, 2)


def served(fairness: Fairness, of: Request, seconds: float = 0.0) -> bool:
    """Send a request of this duration; return true if it did not wait."""
    if (waiting := fairness.enter(of)) is not None:
        waiting.close()  # type: ignore[attr-defined]
        return False
    fairness.spend(of, seconds)
    fairness.leave(of)
    return True


async def test_short_requests_never_wait() -> None:
    fairness = Fairness()
    assert fairness.enter(QUIET) is None
    assert [fairness.enter(ADMIN) for _ in range(64)] == [None] * 64


async def test_requests_of_an_iteration_wait_when_its_time_is_spent() -> None:
    fairness = Fairness()
    assert served(fairness, QUIET)
    assert [served(fairness, NOISY, TURN / 4) for _ in range(5)] == [True] * 4 + [False]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert served(fairness, QUIET)


async def test_time_counts_and_not_the_number_of_requests() -> None:
    fairness = Fairness()
    assert served(fairness, QUIET)
    assert all(served(fairness, NOISY, TURN / 10_000) for _ in range(1000))
    assert served(fairness, NOISY, TURN)
    assert not served(fairness, NOISY)


async def test_a_client_alone_has_more_of_an_iteration() -> None:
    fairness = Fairness()
    for _ in range(20):
        assert served(fairness, NOISY, TURN_ALONE)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert [served(fairness, NOISY, TURN_ALONE / 2) for _ in range(3)] == [True, True, False]


async def run(fairness: Fairness, of: Request, seconds: float, order: list[str]) -> None:
    if (waiting := fairness.enter(of)) is not None:
        await waiting
    order.append(of.user.name)
    fairness.spend(of, seconds)
    fairness.leave(of)


async def test_a_client_that_used_little_is_not_behind_the_queue_of_one_that_used_much() -> None:
    fairness, order = Fairness(), list[str]()
    noisy = [asyncio.ensure_future(run(fairness, NOISY, 2 * TURN, order)) for _ in range(64)]
    await asyncio.sleep(0)
    await run(fairness, QUIET, TURN / 10, order)
    assert order.index("quiet") <= 2, "only behind the requests that had begun"
    await asyncio.gather(*noisy)
    assert len(order) == 65


async def test_two_busy_clients_get_the_same_time_though_one_has_many_connections() -> None:
    """One request of the first takes as long as ten of the second."""
    fairness, order = Fairness(), list[str]()
    many = [asyncio.ensure_future(run(fairness, NOISY, TURN, order)) for _ in range(64)]
    few = [asyncio.ensure_future(run(fairness, QUIET, TURN / 10, order)) for _ in range(100)]
    await asyncio.gather(*many, *few)
    until_all_of_quiet = order[: len(order) - order[::-1].index("quiet")]
    assert 8 <= until_all_of_quiet.count("noisy") <= 14


async def test_a_client_that_was_idle_has_saved_nothing() -> None:
    fairness, order = Fairness(), list[str]()
    for _ in range(20):
        await run(fairness, NOISY, TURN, order)
    order.clear()
    tasks = [asyncio.ensure_future(run(fairness, of, TURN, order)) for of in (NOISY, NOISY, NOISY, QUIET, QUIET, QUIET)]
    await asyncio.gather(*tasks)
    assert order[:4].count("quiet") in (2, 3)


async def test_a_paused_request_goes_on_when_an_iteration_has_time() -> None:
    fairness = Fairness()
    assert fairness.enter(QUIET) is None
    assert fairness.enter(NOISY) is None
    assert fairness.pause(QUIET) is None
    fairness.spend(NOISY, 2 * TURN)
    waiting = fairness.pause(QUIET)
    assert waiting is not None
    await finish(waiting)
    fairness.leave(QUIET)
    fairness.leave(NOISY)
    assert fairness.waiting == 0


async def test_requests_in_flight_are_bounded_per_client() -> None:
    fairness = Fairness(in_flight=3)
    assert [fairness.enter(NOISY) for _ in range(3)] == [None] * 3
    fourth = fairness.enter(NOISY)
    assert fourth is not None
    task = asyncio.ensure_future(fourth)
    for _ in range(5):
        await asyncio.sleep(0)
    assert not task.done()
    assert fairness.enter(QUIET) is None
    fairness.leave(NOISY)
    await finish(task)


async def test_too_many_waiting_are_told_to_come_back() -> None:
    fairness = Fairness(in_flight=1, queue=2)
    fairness.enter(NOISY)
    waiting = [asyncio.ensure_future(entered) for _ in range(2) if (entered := fairness.enter(NOISY))]
    await asyncio.sleep(0)
    with pytest.raises(TooManyRequests) as refused:
        fairness.enter(NOISY)
    assert (refused.value.http_code, refused.value.headers) == (429, [("Retry-After", "1")])
    assert fairness.enter(QUIET) is None
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_a_client_that_gives_up_waiting_leaves_no_trace() -> None:
    fairness = Fairness(in_flight=1)
    fairness.enter(NOISY)
    tasks = [asyncio.ensure_future(waiting) for _ in range(3) if (waiting := fairness.enter(NOISY))]
    await asyncio.sleep(0)
    tasks[0].cancel()
    await asyncio.gather(tasks[0], return_exceptions=True)
    fairness.leave(NOISY)
    await finish(tasks[1])
    assert not tasks[2].done()
    fairness.leave(NOISY)
    await finish(tasks[2])
    fairness.leave(NOISY)
    assert fairness.enter(NOISY) is None


async def test_giving_up_in_the_moment_of_being_let_through() -> None:
    fairness = Fairness(in_flight=1)
    fairness.enter(NOISY)
    waiting = fairness.enter(NOISY)
    assert waiting is not None
    task = asyncio.ensure_future(waiting)
    await asyncio.sleep(0)
    fairness.leave(NOISY)
    fairness._drain()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert fairness.enter(NOISY) is None


def test_clients_without_a_user_are_told_apart_by_their_network() -> None:
    def flow(address: str) -> str:
        return flow_of(Request("GET", "/", user=ANONYMOUS, peer_address=address))

    assert flow("192.0.2.1") != flow("192.0.2.2")
    assert flow("2001:db8::1") == flow("2001:db8::ffff:1")
    assert flow("2001:db8::1") != flow("2001:db8:0:1::1")
    assert flow("fe80::1%eth0") == flow("fe80::2%eth1")
    assert flow_of(Request("GET", "/", peer_address="192.0.2.1")) == flow("192.0.2.1")
    assert flow_of(request("192.0.2.1", "192.0.2.1")) != flow("192.0.2.1")
