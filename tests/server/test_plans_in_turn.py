"""Plans wait for plans of the same user; other users, explanations and files of the dashboard do not."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from inspect import isawaitable
from pathlib import Path

import pytest

from tarmac.base.randomness import Randomness
from tarmac.dashboard.files import DashboardFiles
from tarmac.http.messages import Request, Response
from tarmac.server.security.users import User
from tarmac.server.subresources import plan
from tarmac.server.subresources.userqueue import UserQueue
from tests.cost.bases import BASES
from tests.cost.measuring import Reply, Server, serving

PLANS = "/apis/compute.datumapis.com/v1alpha/namespaces/default/workloads/w/plan"
WORKLOAD = {
    "apiVersion": "compute.datumapis.com/v1alpha",
    "kind": "Workload",
    "metadata": {"name": "w"},
    **BASES["workloads"],
}
TIMEOUT = 10.0  # seconds after which a request counts as blocked
ALICE, BOB, CAROL = (User(name, groups=("system:masters",)) for name in ("alice", "bob", "carol"))


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with serving(tmp_path) as running:
        yield running


@pytest.fixture
def files(tmp_path: Path) -> DashboardFiles:
    (tmp_path / "index.html").write_text("page")
    (tmp_path / "manifest.json").write_text('{"files": ["main-1.js"]}')
    return DashboardFiles(Randomness(), tmp_path)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Plans end only when this is set."""
    event, planned = threading.Event(), plan.planned_workload

    def hold(*arguments: object) -> object:
        event.wait(3 * TIMEOUT)
        return planned(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(plan, "planned_workload", hold)
    yield event
    event.set()


def planning(server: Server, user: User) -> asyncio.Task[Reply]:
    return asyncio.ensure_future(server.send("POST", PLANS, WORKLOAD, user=user))


async def test_sixty_plans_of_a_user_leave_explanations_and_the_dashboard_alone(
    server: Server, held: threading.Event, files: DashboardFiles
) -> None:
    plans = [planning(server, ALICE) for _ in range(60)]
    await asyncio.sleep(0)
    async with asyncio.timeout(TIMEOUT):  # all of these are answered while the plans are held
        assert (await server.send("GET", "/api/v1/nodes/none/why", user=BOB)).status == 404
        assert (await server.send("GET", "/api/v1/nodes/none/ledger", user=ALICE)).status == 404
        page = files.answer(Request("GET", "/dashboard/index.html"))
        assert isawaitable(page)
        assert (await page).status == 200
    held.set()
    replies = await asyncio.gather(*plans)
    assert sorted({reply.status for reply in replies}) == [200, 429]
    assert sum(reply.status == 200 for reply in replies) == 9, "one at a time, and eight that wait"
    refused = next(reply for reply in replies if reply.status == 429)
    assert b"plans: 8 of yours wait already" in refused.body
    assert b'"retryAfterSeconds":1' in refused.body


async def test_a_plan_of_another_user_runs_beside_those_of_the_first(server: Server, held: threading.Event) -> None:
    first = [planning(server, ALICE) for _ in range(9)]
    second = planning(server, BOB)
    held.set()
    assert (await second).status == 200
    assert not all(each.done() for each in first), "it did not wait for the queue of the first user"
    assert {reply.status for reply in await asyncio.gather(*first)} == {200}


class Work:
    """Requests that a test answers in the order of their admission."""

    def __init__(self) -> None:
        self.admitted: list[str] = []
        self._ends: dict[str, asyncio.Future[Response]] = {}

    async def answer(self, request: Request) -> Response:
        self.admitted.append(request.path)
        self._ends[request.path] = asyncio.get_running_loop().create_future()
        return await self._ends[request.path]

    async def end(self, path: str) -> None:
        self._ends[path].set_result(Response(200, b""))
        for _ in range(5):
            await asyncio.sleep(0)


class Line:
    """A queue, and the tasks in it."""

    def __init__(self, slots: int = 2) -> None:
        self.work = Work()
        self._route = UserQueue("plans", slots, waiting=2).route(self.work.answer)

    async def send(self, user: User, path: str) -> asyncio.Task[Response]:
        async def sent() -> Response:
            return await self._route(Request("POST", path, "", {}, b"", user=user))

        task = asyncio.ensure_future(sent())
        await asyncio.sleep(0)
        return task


async def test_users_are_served_in_rotation() -> None:
    line = Line(slots=1)
    for user, path in ((ALICE, "a1"), (ALICE, "a2"), (ALICE, "a3"), (BOB, "b1"), (BOB, "b2"), (CAROL, "c1")):
        await line.send(user, path)
    for path in ("a1", "a2", "b1", "c1", "a3", "b2"):
        assert line.work.admitted[-1] == path
        await line.work.end(path)


async def test_a_user_has_one_running_though_a_slot_is_free() -> None:
    line = Line(slots=2)
    for path in ("a1", "a2"):
        await line.send(ALICE, path)
    assert line.work.admitted == ["a1"]
    await line.send(BOB, "b1")
    assert line.work.admitted == ["a1", "b1"]
    await line.work.end("b1")
    assert line.work.admitted == ["a1", "b1"]
    await line.work.end("a1")
    assert line.work.admitted == ["a1", "b1", "a2"]


async def test_requests_that_are_given_up_leave_no_trace() -> None:
    line = Line(slots=1)
    tasks = [await line.send(ALICE, path) for path in ("a1", "a2", "a3")]
    tasks[1].cancel()
    await line.work.end("a1")
    assert line.work.admitted == ["a1", "a3"]
    tasks[2].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await line.send(BOB, "b1")
    assert line.work.admitted[-1] == "b1"
    waiting = await line.send(BOB, "b2")
    line.work._ends["b1"].set_result(Response(200, b""))
    await asyncio.sleep(0)
    waiting.cancel()  # in the moment of being admitted
    await asyncio.gather(waiting, return_exceptions=True)
    await line.send(CAROL, "c1")
    assert line.work.admitted[-1] == "c1"
