"""Writes the status of Forwarders and Gateways: the generation in force on this node, and the rules that failed.

This node owns the whole status of its Forwarders, conditions included. In a Gateway each node writes its own entry with
its own field manager, so nodes do not overwrite each other; its conditions belong to the controller, which sees all
entries. An acknowledged status is not written again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass

from tarmac.agent.egress.leases.ownership import Ownership
from tarmac.api.declare import encode
from tarmac.api.egress.forwarding import RuleError
from tarmac.api.egress.names import API_VERSION, NAMESPACE
from tarmac.api.schema import JsonObject
from tarmac.api.shared import Condition
from tarmac.api.status import NotFound
from tarmac.base.clock import rfc3339
from tarmac.client.client import Client
from tarmac.client.controller import Controller
from tarmac.client.targets.typed import FORWARDERS, GATEWAYS
from tarmac.decide import reasons
from tarmac.decide.egress.relayconditions import forwarder_findings
from tarmac.decide.rollup import merge

_WORKERS = 4
_MAX_ERRORS = 8


@dataclass(frozen=True, slots=True)
class AppliedGeneration:
    """The generation that was read, and its rules that are not in force."""

    generation: int
    errors: tuple[RuleError, ...] = ()
    is_candidate: bool = False  # this node may own the address


class EgressStatusWriter:
    """Status writer of one node.

    `owned` and `foreign_hosts` return the state of the lease thread by address; `partner` names the gateway that this
    one shares its connections with.
    """

    def __init__(
        self,
        client: Client,
        node: str,
        owned: Callable[[], Mapping[str, Ownership]],
        foreign_hosts: Callable[[], Mapping[str, str]],
        partner: Callable[[], str] = str,
    ) -> None:
        self._node, self._owned, self._foreign_hosts, self._partner = node, owned, foreign_hosts, partner
        self._forwarders, self._gateways = client.resource(FORWARDERS), client.resource(GATEWAYS.unread)
        self._wanted: dict[str, AppliedGeneration] = {}
        self._in_force: dict[str, int] = {}  # key -> the last generation applied without errors
        self._addresses: dict[str, str] = {}  # address -> key of its Gateway
        self._written: dict[str, JsonObject] = {}
        self._conditions: dict[str, Sequence[Condition]] = {}  # of Forwarders, with their transition times
        self._clock = client.clock
        self._controller = Controller(
            "external-status", self._write, clock=client.clock, randomness=client.randomness, workers=_WORKERS
        )

    async def run(self) -> None:
        """Write statuses, with retries, until cancelled."""
        await self._controller.run()

    def forwarder(self, name: str, applied: AppliedGeneration, conditions: Sequence[Condition] = ()) -> None:
        """Report a Forwarder as applied. `conditions` are those of its status when it was read."""
        self._conditions.setdefault(f"forwarder/{name}", conditions)  # conditions written here since then are newer
        self._enqueue(f"forwarder/{name}", applied)

    def gateway(self, name: str, address: str, applied: AppliedGeneration) -> None:
        """Report a Gateway as applied."""
        self._addresses[address] = f"gateway/{name}"
        self._enqueue(f"gateway/{name}", applied)

    def moved(self, address: str) -> None:
        """Update the Gateway of an address that this node has acquired or lost."""
        if key := self._addresses.get(address):
            self._controller.queue.add(key)

    def keep_only(self, forwarders: Set[str], gateways: Set[str]) -> None:
        """Drop the state of deleted objects."""
        kept = {f"forwarder/{each}" for each in forwarders} | {f"gateway/{each}" for each in gateways}
        for known in (self._wanted, self._in_force, self._written, self._conditions):
            for key in known.keys() - kept:
                del known[key]
        self._addresses = {address: key for address, key in self._addresses.items() if key in kept}

    def _enqueue(self, key: str, applied: AppliedGeneration) -> None:
        self._wanted[key] = applied
        if not applied.errors:
            self._in_force[key] = applied.generation
        self._controller.queue.add(key)

    async def _write(self, key: str) -> None:
        applied = self._wanted.get(key)
        if applied is None:
            return
        kind, _, name = key.partition("/")
        status = self._forwarder_status(key, applied) if kind == "forwarder" else self._entry(key, applied)
        if status == self._written.get(key):
            return
        with suppress(NotFound):  # just deleted; its rules go next
            if kind == "forwarder":
                await self._forwarders.patch(name, {"status": status}, NAMESPACE, subresource="status")
            else:
                await self._apply(name, status)
            # Only after success: the controller repeats a failed write, which must not be taken for a written one.
            self._written[key] = status

    def _forwarder_status(self, key: str, applied: AppliedGeneration) -> JsonObject:
        in_force = self._in_force.get(key, 0)
        findings = forwarder_findings(applied.generation, in_force, applied.errors)
        conditions = merge(self._conditions.get(key, ()), findings, applied.generation, self._clock.now())
        self._conditions[key] = conditions
        return {
            "observedGeneration": applied.generation,
            "appliedGeneration": in_force,
            "rulegeneration": applied.generation,
            "syncgeneration": in_force,
            "conditions": [encode(each) for each in conditions],
            "errors": [encode(each) for each in applied.errors[:_MAX_ERRORS]],
        }

    def _entry(self, key: str, applied: AppliedGeneration) -> JsonObject:
        """Return this node's entry of a Gateway's status."""
        address = next((each for each, of in self._addresses.items() if of == key), "")
        owned, foreign_host = self._owned().get(address), self._foreign_hosts().get(address)
        errors = [encode(each) for each in applied.errors[:_MAX_ERRORS]]
        if foreign_host:
            message = f"{address} is in use on its segment by {foreign_host}, which is none of the gateways"
            errors.append({"rule": reasons.ADDRESS_CONFLICT, "message": message})
        in_force = self._in_force.get(key, 0)
        entry: JsonObject = {
            "name": self._node,
            "appliedGeneration": in_force,
            "rulegeneration": applied.generation,
            "syncgeneration": in_force,
            "owner": owned is not None,
        }
        if owned is not None:
            entry |= {"epoch": owned.epoch, "since": rfc3339(owned.since), "cause": owned.cause}
            entry |= {"formerOwner": owned.former} if owned.former else {}
            entry |= {"gapMilliseconds": round(owned.gap * 1000)} if owned.gap is not None else {}
        if (partner := self._partner()) and applied.is_candidate:
            entry |= {"syncedWith": partner}
        return entry | ({"errors": errors} if errors else {})

    async def _apply(self, name: str, entry: JsonObject) -> None:
        body: JsonObject = {
            "apiVersion": API_VERSION,
            "kind": "Gateway",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "status": {"nodes": [entry]},
        }
        await self._gateways.apply(body, manager=f"node-{self._node}", subresource="status")
