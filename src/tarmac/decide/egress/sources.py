"""Resolves the sources of an ExternalService and their pods, with every reason for the ones left out.

A source is used if its Service exists and grants access, and a bound claim of the ExternalService's own namespace holds
its address in a class that allows it. Objects of other namespaces that are not granted look like missing ones. Its pods
are those named by the Service's EndpointSlices that exist with the same uid and an address on the slice's Network. A
source or pod that fails a check is left out; nothing is guessed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from tarmac.api.egress.externalservice import ExternalService
from tarmac.api.egress.names import Address
from tarmac.api.egress.sourceip import SourceIPClass
from tarmac.api.egress.targets import not_outside, reserved_for
from tarmac.base.cooperative import CooperativeWork, run_to_end
from tarmac.decide import reasons
from tarmac.decide.egress.candidates import can_tunnel
from tarmac.decide.egress.openings import Key, Opening, Openings, Remembered, name_of
from tarmac.decide.egress.sourceresolution import ResolvedSource, SourcePod, admitted, granted_service, lets_in
from tarmac.decide.egress.views import EgressLookup, EgressPod, EndpointView, PortView
from tarmac.decide.pooled.nodeview import NodeView
from tarmac.decide.verdict import Refusal

_CHUNK: Final = 64  # endpoints between two points at which resolving may be suspended


@dataclass(slots=True)
class Resolution:
    """A resolved ExternalService."""

    service: ExternalService
    target: Address
    refusal: Refusal | None  # set if the whole ExternalService is refused
    sources: list[ResolvedSource]

    @property
    def networks(self) -> list[str]:
        """The Networks of its source pods."""
        return sorted({pod.network for source in self.sources if source.works for pod in source.pods})

    @property
    def working(self) -> list[ResolvedSource]:
        """The sources for which rules are compiled."""
        return [] if self.refusal is not None else [source for source in self.sources if source.works]


def resolve(service: ExternalService, world: EgressLookup) -> Resolution:
    """Resolve an ExternalService at once, for explanations and plans."""
    return run_to_end(resolving(service, world, Openings()))


def resolving(service: ExternalService, world: EgressLookup, openings: Openings) -> CooperativeWork[Resolution]:
    """Resolve an ExternalService in pieces, and put its ports into the index."""
    world, target = Remembered(world), ip_address(service.spec.target_ip)
    # Before the first pause, during which it may be deleted: its ports would then stay in the index for ever.
    openings.put(service, _wanted_keys(service, world))
    found: list[ResolvedSource] = []
    for source in service.spec.sources:
        found.append(admitted(service, source, target, world))
        yield
    for source in found:
        if source.works:
            yield from _add_pods(source, target, world)
    _settle_ambiguities(found)
    yield
    addresses = {source.source_ip.metadata.name for source in found if source.source_ip is not None}
    for other in openings.unknown(addresses, world):
        openings.put(other, _wanted_keys(other, world))
        yield
    _open_ports(service, found, openings)
    made = Resolution(service, target, None, found)
    made.refusal = _refused_target(made, world)
    return made


def _refused_target(made: Resolution, world: EgressLookup) -> Refusal | None:
    """Return why the target is refused. Of other namespaces only Networks of granted source pods are looked at."""
    own = made.service.metadata.namespace
    held = reserved_for(made.target) or world.inside(made.target, made.networks, own)
    if held is None:
        return None
    message = f"spec.targetIP {made.target} {not_outside(held)}."
    return Refusal(reasons.TARGET_INSIDE_PLATFORM, message, rule="target", change="Name a server outside.")


def first_place(service: ExternalService, offered: SourceIPClass, world: EgressLookup) -> str:
    """Return the Location for WaitForFirstConsumer: the first user's choice, else the one with most of its pods.

    Empty while unknown: the class has several Locations or names none, and no pod runs at an allowed one.
    """
    if service.spec.gateway is not None and service.spec.gateway.location:
        return service.spec.gateway.location
    if len(offered.spec.locations) == 1:
        return offered.spec.locations[0].name
    pods: Counter[str] = Counter()
    own = service.metadata.namespace
    named = Counter(f"{each.service.namespace or own}/{each.service.name}" for each in service.spec.sources)
    for key, times in named.items():
        found = granted_service(service, key, world)
        for endpoint in found.endpoints if found is not None else ():
            pod = world.pod(f"{found.namespace}/{endpoint.pod}") if found is not None else None
            node = world.node(pod.node) if pod is not None else None
            if node is not None and node.location:
                pods[node.location] += times
    offering = {each.name for each in offered.spec.locations}
    places = [place for place in pods if not offering or place in offering]
    return min(places, key=lambda place: (-pods[place], place), default="")


def _add_pods(made: ResolvedSource, target: Address, world: EgressLookup) -> CooperativeWork[None]:
    assert made.service is not None, "it is there"
    assert made.source_ip is not None, "it has an address"
    seen: set[tuple[str, str]] = set()
    carriers = world.candidates(made.source_ip.metadata.name)
    for number, endpoint in enumerate(made.service.endpoints, 1):
        if number % _CHUNK == 0:
            yield
        key = f"{made.service.namespace}/{endpoint.pod}"
        pod = world.pod(key) if endpoint.pod else None
        node = world.node(pod.node) if pod is not None else None
        refusal = _refused_pod(endpoint, pod, node, key)
        if refusal is None and pod is not None and node is not None:
            if made.source.location and node.location != made.source.location:
                continue
            refusal = _refused_node(node, carriers, key)
        if refusal is not None or pod is None or node is None:
            made.remarks += [refusal] if refusal is not None else []
            continue
        own = next((each for each in pod.addresses.get(endpoint.network, ()) if _is_of(each, target)), None)
        if own is not None and (pod.uid, endpoint.network) not in seen:
            seen.add((pod.uid, endpoint.network))
            made.pods.append(SourcePod(pod.uid, key, node, endpoint.network, own, endpoint))


def _is_of(address: str, target: Address) -> bool:
    return (":" in address) == (target.version == 6)


def _refused_pod(endpoint: EndpointView, pod: EgressPod | None, node: NodeView | None, key: str) -> Refusal | None:
    """Return why an endpoint is no source. The uid must match: a new pod may have the name or the address by now."""
    if not endpoint.pod:
        return Refusal(reasons.NOT_A_POD, f"Endpoint {endpoint.address} is no Pod.", endpoint.address, "pods")
    if pod is None or pod.uid != endpoint.uid or node is None:
        return Refusal(reasons.NOT_A_POD, f"Pod {key} is not there any more, or not on a node.", key, "pods")
    if pod.host_network:
        change = "Leave it out of the Service, or run it without hostNetwork."
        return Refusal(reasons.HOST_NETWORK_POD, f"Pod {key} is on its host's network.", key, "pods", change)
    if endpoint.address not in pod.addresses.get(endpoint.network, ()):
        message = (
            f"Endpoint {endpoint.address} is not an address of Pod {key} on Network {endpoint.network or '(none)'}."
        )
        return Refusal(reasons.NOT_A_POD, message, key, "pods")
    return None


def _refused_node(node: NodeView, carriers: Sequence[NodeView], key: str) -> Refusal | None:
    if node.facts is None:
        message = f"Pod {key} is on node {node.name}, which does not take part in external services."
        return Refusal(reasons.NODE_HAS_NO_DATAPATH, message, node.name, "pods")
    other = next((each for each in carriers if not can_tunnel(node, each)), None)
    if other is None:
        return None
    message = f"Pod {key} is on node {node.name}, whose tunnel to gateway {other.name} would not be encrypted."
    return Refusal(reasons.ENCRYPTION_UNAVAILABLE, message, node.name, "pods", "Install WireGuard on both nodes.")


def _settle_ambiguities(found: Sequence[ResolvedSource]) -> None:
    """Assign a pod that is in two sources to the first."""
    taken: dict[tuple[str, str], ResolvedSource] = {}
    for source in found:
        kept: list[SourcePod] = []
        for pod in source.pods:
            first = taken.setdefault((pod.uid, pod.network), source)
            if first is source:
                kept.append(pod)
            else:
                message = f"Pod {pod.name} is a source of {first.key} already, under {first.address}."
                source.remarks.append(Refusal(reasons.AMBIGUOUS_SOURCE, message, pod.name, "pods"))
        source.pods = kept


def _wanted_ports(made: ResolvedSource) -> list[PortView]:
    """Return the Service's ports that the target may reach, regardless of conflicts with other ExternalServices."""
    if not made.works or made.service is None or made.offered is None or made.source.inbound is False:
        return []
    allowed = made.offered.spec.inbound.ports if made.offered.spec.inbound is not None else []
    return [port for port in made.service.ports if lets_in(made) and (not allowed or port.number in allowed)]


def _wanted_keys(service: ExternalService, world: EgressLookup) -> dict[Key, str]:
    """Return the ports that an ExternalService would open, with the Service that each leads to: the first source's."""
    target = ip_address(service.spec.target_ip)
    wanted: dict[Key, str] = {}
    for source in (admitted(service, each, target, world) for each in service.spec.sources):
        for port in _wanted_ports(source):
            wanted.setdefault((target, source.address, port.protocol, port.number), source.key)
    return wanted


def _open_ports(service: ExternalService, found: Sequence[ResolvedSource], openings: Openings) -> None:
    """Open inbound ports. A key (target, SourceIP, protocol, port) leads to one Service.

    An older ExternalService's key takes precedence, then the first source's. If an older ExternalService leads the key
    to the same Service already, there is nothing to open and no conflict.
    """
    own, target = name_of(service), ip_address(service.spec.target_ip)
    mine: dict[Key, str] = {}
    for source in found:
        opened: list[PortView] = []
        for port in _wanted_ports(source):
            key = (target, source.address, port.protocol, port.number)
            first = openings.first(key)
            older = first if first is not None and first.by != own else None
            led = older.service if older is not None else mine.setdefault(key, source.key)
            if led != source.key:
                source.remarks.append(_conflict(source, port, led, older, service.metadata.namespace))
            elif older is None:
                opened.append(port)
        source.open_ports = tuple(opened)


def _conflict(source: ResolvedSource, port: PortView, led: str, older: Opening | None, namespace: str) -> Refusal:
    """Name the other Service; an ExternalService of another namespace and its Service are not named."""
    if older is not None:
        of, _, name = older.by.partition("/")
        led = f"{led} of {name}" if of == namespace else "a Service of another namespace"
    message = f"{source.address}:{port.number}/{port.protocol} leads the target to {led} already."
    change = "Use another address, or another port of the Service."
    return Refusal(reasons.INBOUND_CONFLICT, message, source.key, "inbound", change)
