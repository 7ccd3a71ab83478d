"""Plays a scenario in a running simulation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tarmac.api.catalog import Catalog
from tarmac.api.checks import mapping
from tarmac.api.conditions import condition_of
from tarmac.api.egress.names import LABEL_GATEWAY
from tarmac.api.resource import Resource
from tarmac.api.schema import Json, JsonObject
from tarmac.api.status import ApiError, NotFound
from tarmac.base.clock import Clock
from tarmac.client.client import Client
from tarmac.client.resourceclient import ResourceClient
from tarmac.client.targets.target import dynamic
from tarmac.client.targets.untyped import NODES
from tarmac.sim.faults.replica import Replica
from tarmac.sim.loop import VirtualClock
from tarmac.sim.nodes.fleet import SimulatedNodes
from tarmac.sim.nodes.settings import SimLocation
from tarmac.sim.nodes.simulatedingress import SimIngress
from tarmac.sim.scenario.script import (
    Dial,
    OutsideCall,
    Scenario,
    ScenarioError,
    ScenarioStep,
    Until,
    manifests,
    seconds,
)
from tarmac.sim.simulatedload import SimulatedMetrics

T = TypeVar("T")

_POLL_INTERVAL = 0.5


class Unmet(Exception):
    """An expectation of the scenario does not hold."""


@dataclass(frozen=True)
class ScenarioStage:
    """The simulation that a scenario runs in."""

    client: Client
    clock: Clock
    catalog: Catalog
    fleet: SimulatedNodes
    metrics: SimulatedMetrics
    replicas: Mapping[str, Replica]
    clocks: Mapping[str, VirtualClock]
    ingress: SimIngress | None = None  # without gateways there is none


class Player:
    """Executes steps. `print_line` is called with a line for each; files are read from `folder`."""

    def __init__(self, stage: ScenarioStage, folder: Path, print_line: Callable[[str], None]) -> None:
        self._stage = stage
        self._clock = stage.clock
        self._fleet = stage.fleet
        self._folder = folder
        self._print_line = print_line

    async def do(self, step: ScenarioStep) -> None:
        """Execute one step. Raises ScenarioError (it cannot be executed), Unmet (its expectation does not hold)."""
        try:
            await getattr(self, f"_{step.action}")(step)
        except ApiError as error:
            raise ScenarioError(f"{step.action}: {error}") from error

    async def _say(self, step: ScenarioStep) -> None:
        self._print_line(step.say)

    async def _apply(self, step: ScenarioStep) -> None:
        assert step.apply is not None
        for manifest in manifests(step.apply, self._folder):
            resource = self._of(manifest)
            metadata = manifest.setdefault("metadata", {})
            if resource.target.namespaced:
                metadata.setdefault("namespace", "default")
            self._print_line(f"apply {resource.target.kind.lower()}/{metadata.get('name')}")
            await resource.apply(manifest, manager="scenario")

    async def _patch(self, step: ScenarioStep) -> None:
        assert step.patch is not None
        resource, name, namespace = self._named(step.patch.object)
        self._print_line(f"patch {step.patch.object}")
        await resource.patch(name, step.patch.merge, namespace, manager="scenario")

    async def _delete(self, step: ScenarioStep) -> None:
        resource, name, namespace = self._named(step.delete)
        self._print_line(f"delete {step.delete}")
        await resource.delete(name, namespace)

    async def _wait(self, step: ScenarioStep) -> None:
        await self._clock.sleep(seconds(step.wait))

    async def _until(self, step: ScenarioStep) -> None:
        wanted = step.until
        assert wanted is not None
        began = self._clock.monotonic()
        while found := await self._missing(wanted):
            if self._clock.monotonic() - began > seconds(wanted.within):
                raise Unmet(f"{wanted.object} after {wanted.within}: {found}")
            await self._clock.sleep(_POLL_INTERVAL)
        self._print_line(f"{_wish(wanted)}, after {self._clock.monotonic() - began:.1f} s")

    async def _expect(self, step: ScenarioStep) -> None:
        assert step.expect is not None
        if found := await self._missing(step.expect):
            raise Unmet(f"{step.expect.object}: {found}")
        self._print_line(f"{_wish(step.expect)}, as expected")

    async def _kill(self, step: ScenarioStep) -> None:
        self._print_line(f"node {step.kill} loses power")
        self._fleet.die(self._node(step.kill))

    async def _boot(self, step: ScenarioStep) -> None:
        self._print_line(f"node {step.boot} boots")
        self._fleet.revive(self._node(step.boot))

    async def _cut(self, step: ScenarioStep) -> None:
        self._print_line(f"city {step.cut} is cut off")
        for name in self._place(step.cut).node_names():
            self._fleet.cut(name)

    async def _connect(self, step: ScenarioStep) -> None:
        self._print_line(f"city {step.connect} is connected again")
        for name in self._place(step.connect).node_names():
            self._fleet.heal(name)

    async def _crash(self, step: ScenarioStep) -> None:
        self._print_line(f"{step.crash} crashes")
        self._replica(step.crash).crash()

    async def _start(self, step: ScenarioStep) -> None:
        self._print_line(f"{step.start} starts")
        self._replica(step.start).start()

    async def _jump(self, step: ScenarioStep) -> None:
        assert step.jump is not None
        clock = _one_of(self._stage.clocks, step.jump.clock, "clock")
        self._print_line(f"the clock of {step.jump.clock} jumps by {step.jump.by}")
        clock.jump(seconds(step.jump.by))

    async def _dial(self, step: ScenarioStep) -> None:
        wanted = step.dial
        assert wanted is not None
        began = self._clock.monotonic()
        while (found := await self._seen(wanted)) != wanted.seen:
            if self._clock.monotonic() - began > seconds(wanted.within):
                observed = f"{wanted.source} dials {wanted.to} and {_as_seen(found)}"
                raise Unmet(f"{observed} after {wanted.within}; it should be so that it {_as_seen(wanted.seen)}")
            await self._clock.sleep(_POLL_INTERVAL)
        took = self._clock.monotonic() - began
        self._print_line(f"{wanted.source} dials {wanted.to} and {_as_seen(wanted.seen)}, after {took:.1f} s")

    async def _seen(self, wanted: Dial) -> str:
        resource, name, namespace = self._named(wanted.source)
        try:
            pod = await resource.get(name, namespace)
        except NotFound:
            return ""
        _, service, place = self._named(wanted.to)
        node = pod["spec"].get("nodeName", "")
        return self._fleet.relays.seen(f"{place}/{service}", pod["metadata"]["uid"], node)

    async def _call(self, step: ScenarioStep) -> None:
        wanted = step.call
        assert wanted is not None
        began = self._clock.monotonic()
        while (found := await self._answering(wanted)) != wanted.answered.lower():
            if self._clock.monotonic() - began > seconds(wanted.within):
                said = f"{wanted.source} calls {wanted.to} and {_as_answered(found)}"
                raise Unmet(f"{said} after {wanted.within}; it should be so that it {_as_answered(wanted.answered)}")
            await self._clock.sleep(_POLL_INTERVAL)
        took = self._clock.monotonic() - began
        self._print_line(f"{wanted.source} calls {wanted.to} and {_as_answered(wanted.answered)}, after {took:.1f} s")

    async def _answering(self, wanted: OutsideCall) -> str:
        if self._stage.ingress is None:
            raise ScenarioError("call: the scenario has no gateways that could announce an address")
        city = _one_of({f"near-{each.name}": each.name for each in self._fleet.places}, wanted.source, "client")
        resource, name, namespace = self._named(wanted.to)
        try:
            obj = await resource.get(name, namespace)
        except NotFound:
            return ""
        address = _public_address(obj)
        return self._stage.ingress.answering(city, address) if address else ""

    async def _load(self, step: ScenarioStep) -> None:
        for city, rate in (step.load or {}).items():
            self._stage.metrics.load[self._place(city).name] = rate
            self._print_line(f"{city} has {rate:g} requests per second")

    async def _missing(self, wanted: Until) -> str:
        """Return the reason why an expectation does not hold; empty when it does."""
        resource, name, namespace = self._named(wanted.object)
        try:
            obj = await resource.get(name, namespace)
        except NotFound:
            return "" if wanted.gone else "it does not exist"
        if wanted.gone:
            return "it is still there"
        if wanted.condition:
            kind, _, status = wanted.condition.partition("=")
            return _condition(obj, kind, status or "True")
        value = _field(obj, wanted.field)
        return "" if value == wanted.equals else f"{wanted.field} is {value!r}, not {wanted.equals!r}"

    def _of(self, manifest: JsonObject) -> ResourceClient[JsonObject]:
        group, _, version = str(manifest.get("apiVersion", "")).rpartition("/")
        resource = self._stage.catalog.find_kind(group, version, str(manifest.get("kind", "")))
        if resource is None:
            raise ScenarioError(f"no such kind: {manifest.get('apiVersion')} {manifest.get('kind')}")
        return self._resource(resource)

    def _named(self, text: str) -> tuple[ResourceClient[JsonObject], str, str]:
        """Parse `workload/web` or `namespace/workload/web`."""
        *namespace, kind, name = text.split("/") if "/" in text else ("", text)
        for resource in self._stage.catalog:
            if kind and kind.lower() in (
                resource.singular,
                resource.plural,
                resource.kind.lower(),
                *resource.short_names,
            ):
                where = (namespace[0] if namespace else "default") if resource.namespaced else ""
                return self._resource(resource), name, where
        raise ScenarioError(f"no such kind: {kind!r} in {text!r}; write kind/name")

    def _resource(self, resource: Resource) -> ResourceClient[JsonObject]:
        target = dynamic(resource.api_version, resource.plural, resource.kind, resource.namespaced)
        return self._stage.client.resource(target)

    def _node(self, name: str) -> str:
        return _one_of(self._fleet.nodes, name, "node").name

    def _place(self, city: str) -> SimLocation:
        return _one_of({place.city: place for place in self._fleet.places}, city, "city")

    def _replica(self, name: str) -> Replica:
        return _one_of(self._stage.replicas, name, "process")


async def label_gateways(client: Client, scenario: Scenario, fleet: SimulatedNodes) -> None:
    """Label the scenario's gateways. Raises ScenarioError."""
    for name in scenario.gateways:
        if name not in fleet.nodes:
            raise ScenarioError(f"gateways: no such node: {name}; there are {', '.join(fleet.nodes)}")
        labels = {"metadata": {"labels": {LABEL_GATEWAY: "true"}}}
        await client.resource(NODES).patch(name, labels, manager="scenario")


def _one_of(known: Mapping[str, T], name: str, what: str) -> T:
    if name not in known:
        raise ScenarioError(f"no such {what}: {name}; there are {', '.join(known)}")
    return known[name]


def _condition(obj: JsonObject, kind: str, status: str) -> str:
    condition = condition_of(obj, kind)
    if not condition:
        return f"it has no condition {kind}"
    now = f"{kind} is {condition['status']} ({condition.get('reason')}: {condition.get('message')})"
    return "" if condition["status"] == status else now


def _field(obj: Json, path: str) -> Json:
    for part in path.strip(".").split("."):
        if isinstance(obj, list):
            obj = dict(enumerate(obj)).get(int(part)) if part.isdecimal() else None
        else:
            obj = obj.get(part) if isinstance(obj, dict) else None
    return obj


def _public_address(obj: JsonObject) -> str:
    """Return the address that a Service or Workload shows; empty if it shows none."""
    status = mapping(obj, "status")
    shown = [*(status.get("anycastAddresses") or ())]
    shown += [each["ip"] for each in mapping(status, "loadBalancer").get("ingress") or ()]
    return str(shown[0]) if shown else ""


def _as_answered(city: str) -> str:
    return f"is answered by {city.upper()}" if city else "is not answered"


def _as_seen(address: str) -> str:
    return f"is seen as {address}" if address else "is refused"


def _wish(wanted: Until) -> str:
    if wanted.gone:
        return f"{wanted.object} is gone"
    if wanted.condition:
        return f"{wanted.object} is {wanted.condition}"
    return f"{wanted.object} has {wanted.field} {wanted.equals}"
