"""Lease elections between simulated nodes: the same state machines as on real nodes, over simulated links.

A message passes between nodes that have power and are connected, or are cut off together in one Location. A node's
kernel is modelled as a time until which it serves the address. A node that loses power loses that and everything but
the epochs on its disk; a node whose agent stops keeps its kernel. A violation (two nodes live for one address) is
recorded in `broken` at once. Timers run only while there are Gateways.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from tarmac.api.egress.forwarding import Gateway, GatewayNode
from tarmac.base.clock import Clock
from tarmac.decide.egress.lease.candidate import Candidate
from tarmac.decide.egress.lease.messages import (
    AddressProbe,
    Ask,
    Drop,
    Effect,
    Grant,
    Message,
    Own,
    Refuse,
    Release,
    Renew,
    Send,
    Vacant,
)
from tarmac.decide.egress.lease.voter import Voter
from tarmac.sim.nodes.simulatednode import SimulatedNode

TICK = 0.1
_TRAVEL = 0.005


@dataclass
class Carrying:
    """Ownership of an address by a node: its epoch, start and expiry.

    `until` is the time until which the kernel serves the address without a renewal. `former` is the previous owner,
    empty for the first.
    """

    epoch: int
    since: float
    until: float
    former: str = ""


@dataclass
class _Agent:
    """The lease state of one node, from power-on to power loss."""

    node: SimulatedNode
    voter: Voter
    candidates: dict[str, Candidate] = field(default_factory=dict[str, Candidate])
    known: dict[str, Gateway] = field(default_factory=dict[str, Gateway])
    carries: dict[str, Carrying] = field(default_factory=dict[str, Carrying])


class SimLeases:
    """The leases of all nodes of a process.

    `moved` is called with (node, Gateway) at each change of an address's owner.
    """

    def __init__(self, nodes: Mapping[str, SimulatedNode], clock: Clock, moved: Callable[[str, str], None]) -> None:
        self.broken: list[str] = []
        self._nodes, self._clock, self._moved = nodes, clock, moved
        self._agents: dict[str, _Agent] = {}
        self._disks: dict[str, dict[str, int]] = {}  # node -> epochs
        self._last: dict[str, str] = {}  # address -> last owner
        self._timer: asyncio.TimerHandle | None = None

    def follow(self, node: str, gateway: Gateway | None, name: str) -> None:
        """Apply a Gateway that a node has read, or its deletion."""
        agent = self._agent(node)
        if gateway is None:
            agent.known.pop(name, None)
            candidate = agent.candidates.pop(name, None)
            self._act(agent, candidate.give_up() if candidate is not None else ())
        else:
            agent.known[name] = gateway
            self._read(agent, name, gateway)
        agent.voter.serve({each: _names(known.spec.candidates) for each, known in self._voted(agent)})
        if self._timer is None and any(each.known for each in self._agents.values()):
            self._timer = asyncio.get_running_loop().call_later(TICK, self._tick)

    def lose_power(self, node: str) -> None:
        """Drop all state except the epochs on disk."""
        agent = self._agents.pop(node, None)
        if agent is not None:
            self._disks[node] = _epochs(agent)

    def agent_started(self, node: str) -> None:
        """Restart the agent: it keeps the kernel state, and of its own state only the epochs on disk."""
        agent = self._agents.pop(node, None)
        if agent is not None:
            self._disks[node] = _epochs(agent)
            self._agent(node).carries = agent.carries

    def carrier(self, name: str) -> str:
        """Return the node that carries an address now; empty while none does."""
        now = self._clock.monotonic()
        live = (each.node.name for each in self._agents.values() if _is_live(each, name, now))
        return next(live, "")

    def carrying(self, node: str, name: str) -> Carrying | None:
        """Return the ownership of an address as known to the node itself."""
        agent = self._agents.get(node)
        return agent.carries.get(name) if agent is not None else None

    def connected(self, one: str, other: str) -> bool:
        """Return True if packets pass between two nodes."""
        first, second = self._nodes[one], self._nodes[other]
        together = (first.reachable and second.reachable) or first.place.name == second.place.name
        return one == other or (first.alive and second.alive and together)

    def _agent(self, node: str) -> _Agent:
        if node not in self._agents:
            voter = Voter(self._clock.monotonic(), self._disks.get(node, {}))
            self._agents[node] = _Agent(self._nodes[node], voter)
        return self._agents[node]

    def _voted(self, agent: _Agent) -> Iterable[tuple[str, Gateway]]:
        return [(name, each) for name, each in agent.known.items() if agent.node.name in _names(each.spec.voters)]

    def _read(self, agent: _Agent, name: str, gateway: Gateway) -> None:
        line, voters, node = _names(gateway.spec.candidates), _names(gateway.spec.voters), agent.node.name
        if name not in agent.candidates:
            if node not in line:
                return
            agent.candidates[name] = Candidate(node, name, line, voters, self._disks.get(node, {}).get(name, 0))
        candidate = agent.candidates[name]
        entries = gateway.status.nodes if gateway.status is not None else []
        candidate.announced(max((each.epoch for each in entries), default=0))
        self._act(agent, candidate.change(line, voters, self._clock.monotonic()))

    def _tick(self) -> None:
        now = self._clock.monotonic()
        for agent in list(self._agents.values()):
            if agent.node.alive and agent.node.attended:
                self._act(agent, agent.voter.tick(now))
                for candidate in list(agent.candidates.values()):
                    self._act(agent, candidate.tick(now))
                self._notice_lapsed(agent, now)
        busy = any(each.known for each in self._agents.values())
        self._timer = asyncio.get_running_loop().call_later(TICK, self._tick) if busy else None

    def _notice_lapsed(self, agent: _Agent, now: float) -> None:
        """Report ownerships of an earlier agent that expired without renewal."""
        for name in [each for each, carried in agent.carries.items() if carried.until <= now]:
            del agent.carries[name]
            self._moved(agent.node.name, name)

    def _act(self, agent: _Agent, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(to, message):
                    self._send(agent.node.name, to, message)
                case Own(name, epoch, until):
                    former, self._last[name] = self._last.get(name, ""), agent.node.name
                    agent.carries[name] = Carrying(epoch, self._clock.now(), until, former)
                    self._judge(agent, name)
                    self._moved(agent.node.name, name)
                case Renew(name, until):
                    if name in agent.carries:
                        agent.carries[name].until = until
                        self._judge(agent, name)
                case Drop(name):
                    if agent.carries.pop(name, None) is not None:
                        self._moved(agent.node.name, name)
                case AddressProbe(name):
                    self._act(agent, agent.candidates[name].probed(False, self._clock.monotonic()))

    def _judge(self, agent: _Agent, name: str) -> None:
        """Record a violation if another node is live for the address at this moment."""
        now = self._clock.monotonic()
        for other in self._agents.values():
            if other is not agent and _is_live(other, name, now) and _is_live(agent, name, now):
                self.broken.append(f"{name} is carried by {other.node.name} and {agent.node.name}")

    def _send(self, sender: str, to: str, message: Message) -> None:
        if to in self._nodes and self.connected(sender, to):
            travel = 0.0 if sender == to else _TRAVEL
            asyncio.get_running_loop().call_later(travel, partial(self._receive, sender, to, message))

    def _receive(self, sender: str, to: str, message: Message) -> None:
        agent, now = self._agents.get(to), self._clock.monotonic()
        if agent is None or not (agent.node.alive and agent.node.attended):
            return
        if isinstance(message, Ask):
            self._act(agent, [agent.voter.asked(sender, message, now)])
        elif isinstance(message, Release):
            self._act(agent, agent.voter.released(sender, message, now))
        elif message.address in agent.candidates:
            self._act(agent, _apply_answer(agent.candidates[message.address], sender, message, now))


def _apply_answer(candidate: Candidate, sender: str, message: Grant | Refuse | Vacant, now: float) -> list[Effect]:
    match message:
        case Grant():
            return candidate.granted(sender, message, now)
        case Refuse():
            return candidate.refused(sender, message, now)
        case Vacant():
            return candidate.vacant(sender, message, now)


def _is_live(agent: _Agent, name: str, now: float) -> bool:
    carried = agent.carries.get(name)
    return carried is not None and agent.node.alive and carried.until > now


def _names(nodes: Iterable[GatewayNode]) -> tuple[str, ...]:
    return tuple(each.name for each in nodes)


def _epochs(agent: _Agent) -> dict[str, int]:
    """Return the state on a node's disk: the highest known epoch of each address."""
    found = agent.voter.epochs
    for name, candidate in agent.candidates.items():
        found[name] = max(found.get(name, 0), candidate.epoch)
    return found
