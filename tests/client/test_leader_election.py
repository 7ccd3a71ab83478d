"""At most one leader, with any clocks and networks; a deposed one cannot write."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from tarmac.api.status import ServiceUnavailable
from tarmac.base.clock import ManualClock
from tarmac.base.randomness import Randomness
from tarmac.client.client import Client
from tarmac.client.errors import Disconnected, NotLeader
from tarmac.client.leader import Elector, FencedTransport, Leadership, Timing
from tarmac.client.targets.untyped import CONFIG_MAPS
from tarmac.client.transport import ClientRequest, Reply
from tests.client.model_server import ModelServer


class SkewedClock(ManualClock):
    """Shares another clock's passing of time, but shows its own wall time."""

    def __init__(self, base: ManualClock, skew: float) -> None:
        super().__init__()
        self._base = base
        self.skew = skew

    def now(self) -> float:
        return self._base.now() + self.skew

    def monotonic(self) -> float:
        return self._base.monotonic()

    async def sleep(self, seconds: float) -> None:
        await self._base.sleep(seconds)


class Link:
    """A transport that a test can cut."""

    def __init__(self, server: ModelServer, clock: ManualClock) -> None:
        self._inner = server.transport()
        self._clock = clock
        self.up = True
        self.writes_take = 0.0
        self.stream = self._inner.stream
        self.close = self._inner.close

    async def request(self, request: ClientRequest) -> Reply:
        if not self.up:
            raise Disconnected("cut")
        if self.writes_take and request.method != "GET":
            await self._clock.sleep(self.writes_take)
        return await self._inner.request(request)


class Contender:
    """One process: its link, its elector, and a job that writes as long as it leads."""

    def __init__(self, name: str, server: ModelServer, clock: ManualClock, skew: float, seed: int) -> None:
        self.link = Link(server, clock)
        self.clock = SkewedClock(clock, skew)
        client = Client(self.link, self.clock, Randomness(seed))
        self.elector = Elector(client, "lock", "kube-system", name)
        self.epochs: list[int] = []
        self.leadership: Leadership | None = None
        self.cancelled = 0
        self.working = False

    async def lead(self, leadership: Leadership) -> None:
        self.epochs.append(leadership.epoch)
        self.leadership = leadership
        self.working = True
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled += 1
            self.working = False

    @property
    def leads(self) -> bool:
        return self.leadership is not None and self.leadership.remaining > 0


class Scene:
    """Contenders for one lease, whose wall clocks are off by `skews`."""

    def __init__(self, *skews: float, seed: int = 0) -> None:
        self.clock = ManualClock()
        self.server = ModelServer(clock=self.clock)
        self.contenders = [
            Contender(f"contender-{number}", self.server, self.clock, skew, seed + number)
            for number, skew in enumerate(skews)
        ]

    async def pass_time(self, seconds: float) -> None:
        """Advance in small steps; never may two lead."""
        for _ in range(round(seconds / 0.5)):
            for _ in range(12):
                await asyncio.sleep(0)
            assert sum(each.leads for each in self.contenders) <= 1, "two leaders"
            assert sum(each.working for each in self.contenders) <= 1, "two at work"
            self.clock.advance(0.5)

    @property
    def leader(self) -> Contender | None:
        return next((each for each in self.contenders if each.leads), None)


async def _scene(scene: Scene, play: Any) -> None:
    async with asyncio.TaskGroup() as group:
        running = [group.create_task(each.elector.run(each.lead)) for each in scene.contenders]
        await play(running)
        for task in running:
            task.cancel()


async def test_one_leads_and_keeps_leading() -> None:
    scene = Scene(0, 0)

    async def play(_running: Any) -> None:
        await scene.pass_time(5)
        first = scene.leader
        assert first is not None
        await scene.pass_time(120)
        assert scene.leader is first
        assert first.epochs == [0]

    await _scene(scene, play)


@pytest.mark.parametrize("skew", [-3600.0, 3600.0, 86400.0 * 365])
async def test_wall_clocks_do_not_matter(skew: float) -> None:
    scene = Scene(0, skew)

    async def play(_running: Any) -> None:
        await scene.pass_time(60)
        first = scene.leader
        assert first is not None
        for each in scene.contenders:
            each.clock.skew -= 1000 * skew
        await scene.pass_time(60)
        assert scene.leader is first, "a jump of a wall clock deposes no leader"

    await _scene(scene, play)


async def test_a_leader_cut_off_stops_before_the_next_one_starts() -> None:
    scene = Scene(0, 0)

    async def play(_running: Any) -> None:
        await scene.pass_time(5)
        old = scene.leader
        assert old is not None
        old.link.up = False
        await scene.pass_time(11)
        assert not old.working, "its work ends with its own deadline"
        await scene.pass_time(19)
        new = scene.leader
        assert new is not None
        assert new is not old
        assert old.cancelled == 1, "its work was cancelled"
        assert new.epochs[0] == old.epochs[-1] + 1, "each leadership has its own epoch"
        old.link.up = True
        await scene.pass_time(30)
        assert scene.leader is new

    await _scene(scene, play)


async def test_a_short_outage_costs_no_leadership() -> None:
    scene = Scene(0, 0)

    async def play(_running: Any) -> None:
        await scene.pass_time(5)
        leader = scene.leader
        assert leader is not None
        leader.link.up = False
        await scene.pass_time(6)
        leader.link.up = True
        await scene.pass_time(30)
        assert scene.leader is leader
        assert leader.cancelled == 0

    await _scene(scene, play)


@pytest.mark.parametrize("seed", range(25))
async def test_cuts_at_any_moment_never_make_two_leaders(seed: int) -> None:
    dice = random.Random(seed)
    scene = Scene(0, dice.uniform(-1e6, 1e6), 0, seed=seed)

    async def play(_running: Any) -> None:
        for _ in range(12):
            for each in scene.contenders:
                each.link.up = dice.random() < 0.6
                each.clock.skew += dice.choice((0.0, -1e4, 1e4))
            await scene.pass_time(dice.uniform(1, 25))
        for each in scene.contenders:
            each.link.up = True
        await scene.pass_time(60)
        assert scene.leader is not None
        epochs = sorted(epoch for each in scene.contenders for epoch in each.epochs)
        assert len(set(epochs)) == len(epochs), "no epoch twice"

    await _scene(scene, play)


async def test_stopping_hands_over_at_once() -> None:
    scene = Scene(0, 0)

    async def play(running: Any) -> None:
        await scene.pass_time(5)
        old = scene.leader
        assert old is not None
        running[scene.contenders.index(old)].cancel()
        await scene.pass_time(4)
        assert scene.leader not in (None, old)

    await _scene(scene, play)


async def test_renewing_is_one_write_each_time() -> None:
    scene = Scene(0)
    asked: list[str] = []

    async def play(_running: Any) -> None:
        await scene.pass_time(5)
        scene.server.hooks.append(lambda method, _path: asked.append(method))
        await scene.pass_time(20)
        assert asked == ["PUT"] * 5
        assert scene.leader is not None

    await _scene(scene, play)


async def test_a_store_that_takes_nearly_five_seconds_for_a_write_keeps_its_leader() -> None:
    scene = Scene(0)
    scene.contenders[0].link.writes_take = 4.5

    async def play(_running: Any) -> None:
        await scene.pass_time(10)
        assert scene.leader is scene.contenders[0]
        for _ in range(100):
            await scene.pass_time(1)
            assert scene.leader is scene.contenders[0]
        assert scene.contenders[0].epochs == [0]
        scene.contenders[0].link.writes_take = 0.0  # the last one waits without the clock

    await _scene(scene, play)


async def test_a_lease_that_somebody_else_writes_on_is_renewed_with_what_they_wrote() -> None:
    scene = Scene(0)

    async def play(_running: Any) -> None:
        await scene.pass_time(5)
        scene.server.put("leases", "lock", "kube-system", metadata={"annotations": {"note": "mine"}})
        await scene.pass_time(30)
        lease = scene.server.find("leases", "lock", "kube-system")
        assert lease is not None
        assert lease["metadata"]["annotations"] == {"note": "mine"}
        leader = scene.leader
        assert leader is not None
        assert leader.epochs == [0]

    await _scene(scene, play)


async def test_a_lease_taken_by_force_ends_leadership() -> None:
    scene = Scene(0)

    async def play(_running: Any) -> None:
        await scene.pass_time(5)
        scene.server.put("leases", "lock", "kube-system", spec={"holderIdentity": "usurper", "leaseTransitions": 9})
        await scene.pass_time(5)
        assert scene.leader is None
        assert scene.contenders[0].cancelled == 1

    await _scene(scene, play)


async def test_a_server_that_refuses_renewals_ends_leadership() -> None:
    scene = Scene(0)

    async def play(_running: Any) -> None:
        await scene.pass_time(5)
        scene.server.hooks.append(_refuse)
        await scene.pass_time(15)
        assert scene.leader is None

    await _scene(scene, play)


def _refuse(_method: str, _path: str) -> None:
    raise ServiceUnavailable("no")


async def test_work_that_ends_by_itself_releases_the_lease() -> None:
    scene = Scene(0)
    contender = scene.contenders[0]

    async def work(leadership: Leadership) -> None:
        contender.leadership = leadership

    await contender.elector.run(work)
    lease = scene.server.find("leases", "lock", "kube-system")
    assert lease is not None
    assert lease["spec"]["holderIdentity"] == ""
    assert not contender.leads


async def test_failing_work_fails_the_run_and_releases_the_lease() -> None:
    scene = Scene(0)

    async def work(_leadership: Leadership) -> None:
        raise RuntimeError("bug")

    with pytest.raises(ExceptionGroup, match="TaskGroup"):
        await scene.contenders[0].elector.run(work)
    lease = scene.server.find("leases", "lock", "kube-system")
    assert lease is not None
    assert lease["spec"]["holderIdentity"] == ""


async def test_after_the_deadline_writes_are_refused_and_reads_are_not() -> None:
    clock = ManualClock()
    server = ModelServer(clock=clock)
    leadership = Leadership(clock, epoch=3, deadline=10.0)
    maps = Client(FencedTransport(server.transport(), leadership), clock).resource(CONFIG_MAPS)
    await maps.create({"metadata": {"name": "a", "namespace": "default"}})
    clock.advance(10)
    with pytest.raises(NotLeader):
        await maps.delete("a", "default")
    with pytest.raises(NotLeader):
        leadership.extend(100.0)
    assert (await maps.get("a", "default"))["metadata"]["name"] == "a"


async def test_a_write_gets_no_more_time_than_the_leadership_has() -> None:
    clock = ManualClock()
    given: list[float | None] = []

    class Recording(Link):
        async def request(self, request: ClientRequest) -> Reply:
            given.append(request.timeout)
            return Reply(200, {}, b"{}")

    leadership = Leadership(clock, epoch=0, deadline=4.0)
    transport = FencedTransport(Recording(ModelServer(), clock), leadership)
    clock.advance(1)
    await transport.request(ClientRequest("DELETE", "/x", timeout=30.0))
    await transport.request(ClientRequest("GET", "/x", timeout=30.0))
    assert given == [3.0, 30.0]


def test_timings_that_would_allow_two_leaders_are_refused() -> None:
    with pytest.raises(ValueError):
        Timing(lease_duration=10, renew_deadline=10)
