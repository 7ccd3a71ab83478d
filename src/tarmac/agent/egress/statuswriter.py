"""Writes the status of Forwarders and Gateways: the generation in force on this node, and the rules that failed.

This node owns the whole status of its Forwarders, conditions included. In a Gateway each node writes its own entry with
its own field manager, so nodes do not overwrite each other; its conditions belong to the controller, which sees all
entries. An acknowledged status is not written again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass

from tarmac.agent.egress.leases.participant import Carrying
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
_MOST_ERRORS = 8


@dataclass(frozen=True, slots=True)
class Applied:
    """The generation that was read, and its rules that are not in force."""

    generation: int
    errors: tuple[RuleError, ...] = ()
    stands: bool = False  # this node may own the address


class Acknowledgements:
    """Status writer of one node.

    `carrying` and `strangers` return the state of the lease thread by address; `partner` names the gateway that this
    one shares its connections with.
    """

    def __init__(
        self,
        client: Client,
        node: str,
        carrying: Callable[[], Mapping[str, Carrying]],
        strangers: Callable[[], Mapping[str, str]],
        partner: Callable[[], str] = str,
    ) -> None:
        self._node, self._carrying, self._strangers, self._partner = node, carrying, strangers, partner
        self._forwarders, self._gateways = client.resource(FORWARDERS), client.resource(GATEWAYS.unread)
        self._wanted: dict[str, Applied] = {}
        self._in_force: dict[str, int] = {}  # key -> the last generation applied without errors
        self._addresses: dict[str, str] = {}  # address -> key of its Gateway
        self._said: dict[str, JsonObject] = {}
        self._conditions: dict[str, Sequence[Condition]] = {}  # of Forwarders, with their transition times
        self._clock = client.clock
        self._controller = Controller(
            "external-status", self._tell, clock=client.clock, randomness=client.randomness, workers=_WORKERS
        )

    async def run(self) -> None:
        """Write statuses, with retries, until cancelled."""
        await self._controller.run()

    def forwarder(self, name: str, applied: Applied, conditions: Sequence[Condition] = ()) -> None:
        """Report a Forwarder as applied. `conditions` are those of its status when it was read."""
        self._conditions.setdefault(f"forwarder/{name}", conditions)  # conditions written here since then are newer
        self._put(f"forwarder/{name}", applied)

    def gateway(self, name: str, address: str, applied: Applied) -> None:
        """Report a Gateway as applied."""
        self._addresses[address] = f"gateway/{name}"
        self._put(f"gateway/{name}", applied)

    def moved(self, address: str) -> None:
        """Update the Gateway of an address that this node has acquired or lost."""
        if key := self._addresses.get(address):
            self._controller.queue.add(key)

    def keep_only(self, forwarders: Set[str], gateways: Set[str]) -> None:
        """Drop the state of deleted objects."""
        kept = {f"forwarder/{each}" for each in forwarders} | {f"gateway/{each}" for each in gateways}
        for known in (self._wanted, self._in_force, self._said, self._conditions):
            for key in known.keys() - kept:
                del known[key]
        self._addresses = {address: key for address, key in self._addresses.items() if key in kept}

    def _put(self, key: str, applied: Applied) -> None:
        self._wanted[key] = applied
        if not applied.errors:
            self._in_force[key] = applied.generation
        self._controller.queue.add(key)

    async def _tell(self, key: str) -> None:
        applied = self._wanted.get(key)
        if applied is None:
            return
        what, _, name = key.partition("/")
        word = self._forwarder_status(key, applied) if what == "forwarder" else self._entry(key, applied)
        if word == self._said.get(key):
            return
        with suppress(NotFound):  # just deleted; its rules go next
            if what == "forwarder":
                await self._forwarders.patch(name, {"status": word}, NAMESPACE, subresource="status")
            else:
                await self._apply(name, word)
            self._said[key] = word

    def _forwarder_status(self, key: str, applied: Applied) -> JsonObject:
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
            "errors": [encode(each) for each in applied.errors[:_MOST_ERRORS]],
        }

    def _entry(self, key: str, applied: Applied) -> JsonObject:
        """Return this node's entry of a Gateway's status."""
        address = next((each for each, of in self._addresses.items() if of == key), "")
        carrying, stranger = self._carrying().get(address), self._strangers().get(address)
        errors = [encode(each) for each in applied.errors[:_MOST_ERRORS]]
        if stranger:
            message = f"{address} is in use on its segment by {stranger}, which is none of the gateways"
            errors.append({"rule": reasons.ADDRESS_CONFLICT, "message": message})
        in_force = self._in_force.get(key, 0)
        entry: JsonObject = {
            "name": self._node,
            "appliedGeneration": in_force,
            "rulegeneration": applied.generation,
            "syncgeneration": in_force,
            "owner": carrying is not None,
        }
        if carrying is not None:
            entry |= {"epoch": carrying.epoch, "since": rfc3339(carrying.since), "cause": carrying.cause}
            entry |= {"formerOwner": carrying.former} if carrying.former else {}
            entry |= {"gapMilliseconds": round(carrying.gap * 1000)} if carrying.gap is not None else {}
        if (partner := self._partner()) and applied.stands:
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
