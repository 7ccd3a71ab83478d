"""Injects large faults at random intervals, and repairs each after a while.

Each fault is a task (break, wait, repair) that runs beside the rest, so a city may be cut off while a controller
crashes and a clock jumps. `end` repairs everything at once; from then on the cluster must converge by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from math import log
from typing import Any

from tarmac.base.clock import Clock
from tarmac.sim.faults.draws import (
    AGENT_END,
    CITY_PARTITION,
    CLOCK_JUMP,
    CONTROLLER_CRASH,
    HISTORY_LOST,
    LEADER_CHANGE,
    NODE_DEATH,
    FaultInjector,
)
from tarmac.sim.faults.replica import Replica
from tarmac.sim.loop import VirtualClock
from tarmac.sim.nodes.fleet import SimulatedNodes
from tarmac.store.interface import Store

_SOON = 40  # number of requests within which an armed crash happens


class Director:
    """The fault injector. `run` until cancelled; `end` once."""

    def __init__(
        self,
        luck: FaultInjector,
        clock: Clock,
        store: Store,
        replicas: Sequence[Replica],
        fleet: SimulatedNodes,
        clocks: Mapping[str, VirtualClock],
        *,
        pace: float = 16.0,
        on_event: Callable[[str], None] = lambda _what: None,
    ) -> None:
        self._luck = luck
        self._dice = luck.randomness
        self._clock = clock
        self._store = store
        self._replicas = replicas
        self._fleet = fleet
        self._clocks = clocks
        self._pace = pace
        self._on_event = on_event
        self._acts: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {
            CONTROLLER_CRASH: self._crash,
            LEADER_CHANGE: self._silence_leader,
            NODE_DEATH: self._kill_node,
            AGENT_END: self._end_agent,
            CITY_PARTITION: self._cut_city,
            CLOCK_JUMP: self._jump,
            HISTORY_LOST: self._lose_history,
        }

    async def run(self) -> None:
        """Inject a fault every `pace` seconds on average, until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                await self._clock.sleep(-self._pace * log(self._dice.uniform(1e-9, 1)))
                kind = self._dice.choice(list(self._acts))
                group.create_task(self._acts[kind]())

    def end(self) -> None:
        """Stop injecting faults, and repair everything now."""
        self._luck.stop()
        for replica in self._replicas:
            if not replica.running:
                replica.start()
            replica.link.mute(False)
            replica.link.disarm()
        for node in self._fleet.nodes.values():
            if not node.alive:
                self._fleet.revive(node.name)
            if not node.attended:
                self._fleet.start_agent(node.name)
            if not node.reachable:
                self._fleet.heal(node.name)
        self._fleet.calm()

    def _hit(self, kind: str, what: str) -> None:
        self._luck.hits[kind] += 1
        self._on_event(what)

    async def _crash(self) -> None:
        """Crash a controller process during a request, and start it again later."""
        replica = self._dice.choice(self._replicas)
        if not replica.running:
            return
        dead = asyncio.Event()

        def crash() -> None:
            replica.crash()
            dead.set()

        number = replica.link.requests + int(self._dice.uniform(0, _SOON))
        replica.link.crash_at(number, self._dice.uniform(0, 1) < 0.5, crash)
        await dead.wait()
        self._hit(CONTROLLER_CRASH, f"{replica.name} crashes")
        await self._clock.sleep(self._dice.uniform(0.1, 30))
        replica.start()
        self._on_event(f"{replica.name} starts again")

    async def _silence_leader(self) -> None:
        """Disconnect the leader for longer than its lease lasts."""
        leader = next((replica for replica in self._replicas if replica.leading), None)
        if leader is None:
            return
        link = leader.link
        link.mute(True)
        self._on_event(f"{leader.name} leads and cannot be heard")
        await self._clock.sleep(self._dice.uniform(16, 45))
        if any(replica.leading for replica in self._replicas if replica is not leader):
            self._hit(LEADER_CHANGE, "another leads now")
        link.mute(False)

    async def _kill_node(self) -> None:
        alive = [node.name for node in self._fleet.nodes.values() if node.alive]
        if len(alive) <= 1:
            return
        name = self._dice.choice(alive)
        self._fleet.die(name)
        self._hit(NODE_DEATH, f"node {name} dies")
        await self._clock.sleep(self._dice.uniform(5, 700))
        self._fleet.revive(name)
        self._on_event(f"node {name} boots")

    async def _end_agent(self) -> None:
        running = [node.name for node in self._fleet.nodes.values() if node.alive and node.attended]
        if not running:
            return
        name = self._dice.choice(running)
        self._fleet.end_agent(name)
        self._hit(AGENT_END, f"the agent of {name} ends")
        await self._clock.sleep(self._dice.uniform(0.1, 90))
        if not self._fleet.nodes[name].attended and self._fleet.nodes[name].alive:
            self._fleet.start_agent(name)
            self._on_event(f"the agent of {name} starts again")

    async def _cut_city(self) -> None:
        place = self._dice.choice(self._fleet.places)
        names = [name for name in place.node_names() if self._fleet.nodes[name].reachable]
        if not names:
            return
        for name in names:
            self._fleet.cut(name)
        self._hit(CITY_PARTITION, f"city {place.city} is cut off")
        await self._clock.sleep(self._dice.uniform(5, 700))
        for name in names:
            self._fleet.heal(name)
        self._on_event(f"city {place.city} is connected again")

    async def _jump(self) -> None:
        name = self._dice.choice(list(self._clocks))
        seconds = round(self._dice.uniform(1, 400) * (1 if self._dice.uniform(0, 1) < 0.6 else -1))
        self._clocks[name].jump(seconds)
        self._hit(CLOCK_JUMP, f"the clock of {name} jumps by {seconds} s")

    async def _lose_history(self) -> None:
        await self._store.compact(self._store.revision)
        self._hit(HISTORY_LOST, "the store forgets its history")
