"""Rules for external services: safety at every change, and convergence at the end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import inf

from tarmac.api.checks import mapping, objects
from tarmac.api.conditions import condition_of, is_true
from tarmac.api.egress.names import GROUP
from tarmac.api.ingress.names import PUBLIC_ADDRESSES
from tarmac.api.schema import JsonObject
from tarmac.sim.checker.replay import PODS, Mirror, ObjectChange
from tarmac.sim.nodes.fleet import SimulatedNodes

SOURCE_IPS, CLAIMS = f"{GROUP}/sourceips", f"{GROUP}/sourceipclaims"
SERVICES, FORWARDERS, GATEWAYS = f"{GROUP}/externalservices", f"{GROUP}/forwarders", f"{GROUP}/gateways"
_RESTING = ("Released", "Quarantined")
_PASSING = ("OwnerChanging", "Programming", "")
STALE = 15.0  # seconds by which a controller may be behind after a crash or a lost watch


def _holders(source_ip: JsonObject | None) -> list[JsonObject]:
    spec = mapping(source_ip, "spec")
    first = spec.get("claimRef")
    return [first, *objects(spec, "sharedBy")] if first else []


class HeldOnce:
    """An address passes from one claim to another only through quarantine, and no identity is assigned twice."""

    name = "address-held-once"

    def look(self, mirror: Mirror, change: ObjectChange) -> Iterator[str]:
        """Check each change of an address."""
        if change.bucket != SOURCE_IPS or change.new is None:
            return
        before = {each.get("uid") for each in _holders(change.old)}
        after = {each.get("uid") for each in _holders(change.new)}
        resting = mapping(change.old, "status").get("phase") in _RESTING
        if before and after and not before & after and not resting:
            yield f"{change.key} goes from {sorted(map(str, before))} to {sorted(map(str, after))}"
        number = mapping(change.new, "status").get("id")
        others = [
            key
            for key, each in mirror.bucket(SOURCE_IPS).items()
            if number and key != change.key and mapping(each, "status").get("id") == number
        ]
        if others:
            yield f"{change.key} and {others[0]} have the identity {number}"


class PublicAddressHeldOnce:
    """A public address changes its holder only through quarantine."""

    name = "public-address-held-once"

    def look(self, mirror: Mirror, change: ObjectChange) -> Iterator[str]:
        """Check each change of a PublicAddress."""
        if change.bucket != PUBLIC_ADDRESSES or change.new is None:
            return
        before = {each.get("uid") for each in _holders(change.old)} - {None, ""}
        after = {each.get("uid") for each in _holders(change.new)} - {None, ""}
        resting = mapping(change.old, "status").get("phase") in _RESTING
        if before and after and not before & after and not resting:
            yield f"{change.key} goes from {sorted(map(str, before))} to {sorted(map(str, after))}"


class RulesAreGranted:
    """A node gets rules only for addresses that a claim of the service's namespace holds, or held a moment ago."""

    name = "rules-granted"

    def __init__(self) -> None:
        self._held: dict[tuple[str, str], float] = {}  # namespace and address -> end of the holding

    def look(self, mirror: Mirror, change: ObjectChange) -> Iterator[str]:
        """Record the holders of addresses; check each new rule."""
        if change.bucket == SOURCE_IPS:
            self._note(change)
        if change.bucket != FORWARDERS or change.new is None:
            return
        spec = change.new["spec"]
        namespace = mapping(spec, "externalService").get("namespace", "")
        known = {rule.get("gatewayip") for rule in _rules(change.old)}
        for address in sorted({str(rule.get("gatewayip")) for rule in _rules(change.new)} - known):
            if self._held.get((namespace, address), -inf) < change.time - STALE:
                yield f"{change.key} uses {address}, which no claim of {namespace} holds"
        yield from _shared_transits(mirror, change)

    def _note(self, change: ObjectChange) -> None:
        for each in _holders(change.old):
            self._held[each["namespace"], mapping(change.old, "spec").get("address", "")] = change.time
        if mapping(change.new, "status").get("phase") not in _RESTING:
            for each in _holders(change.new):
                self._held[each["namespace"], mapping(change.new, "spec").get("address", "")] = inf


def _rules(forwarder: JsonObject | None) -> list[JsonObject]:
    spec = mapping(forwarder, "spec")
    return [*objects(spec, "egressrules"), *objects(spec, "ingressrules")]


def _shared_transits(mirror: Mirror, change: ObjectChange) -> Iterator[str]:
    mine = {rule.get("transitip") for rule in _rules(change.new)}
    for key, other in mirror.bucket(FORWARDERS).items():
        shared = mine & {rule.get("transitip") for rule in _rules(other)} if key != change.key else set()
        if shared:
            yield f"{change.key} and {key} both have the transit address {min(map(str, shared))}"


def unmet_outside(mirror: Mirror) -> Iterator[str]:
    """Yield services and claims without a conclusive status."""
    for key, service in mirror.bucket(SERVICES).items():
        ready = condition_of(service, "Ready")
        if not is_true(service, "Ready") and ready.get("reason", "") in _PASSING:
            yield f"externalservice {key}: Ready is {ready.get('status')} ({ready.get('reason')})"
        if "deletionTimestamp" in service["metadata"]:
            yield f"externalservice {key} is still there"
    for key, claim in mirror.bucket(CLAIMS).items():
        if not condition_of(claim, "Bound"):
            yield f"claim {key} has not been looked at"


def lies_outside(mirror: Mirror, fleet: SimulatedNodes) -> Iterator[str]:
    """Yield statuses that differ from the nodes' behaviour, and objects that are no longer used."""
    for key, service in mirror.bucket(SERVICES).items():
        yield from _misjudged(mirror, fleet, key, service)
    for key, claim in mirror.bucket(CLAIMS).items():
        for name in mapping(claim, "status").get("sourceIPNames") or () if is_true(claim, "Bound") else ():
            held = {each.get("uid") for each in _holders(mirror.bucket(SOURCE_IPS).get(name))}
            if claim["metadata"]["uid"] not in held:
                yield f"claim {key} says that it holds {name}, and it does not"
    services = {key.replace("/", ".") for key in mirror.bucket(SERVICES)}
    for key in mirror.bucket(FORWARDERS):
        if key.partition("/")[2].rpartition(".")[0] not in services:
            yield f"forwarder {key} has no owner"
    for key, gateway in mirror.bucket(GATEWAYS).items():
        if not _is_used(gateway, services):
            yield f"gateway {key} has rules without an owner"


def _is_used(gateway: JsonObject, services: Iterable[str]) -> bool:
    rules = objects(gateway["spec"], "egressrules")
    names = {mapping(rule, "forwarder").get("name", "").rpartition(".")[0] for rule in rules}
    return names <= set(services)


def _misjudged(mirror: Mirror, fleet: SimulatedNodes, key: str, service: JsonObject) -> Iterator[str]:
    """Check that Ready means: the target sees each source pod under the service's address."""
    address = next(iter((objects(mapping(service, "status"), "sources") or [{}])[0].get("sourceIPs") or ()), "")
    rules = [rule for name, each in mirror.bucket(FORWARDERS).items() if _is_of(name, key) for rule in _rules(each)]
    pods = {each["metadata"]["uid"]: each for each in mirror.bucket(PODS).values()}
    for uid in sorted({rule["pod"] for rule in rules}):
        seen = fleet.relays.seen(key, uid, mapping(pods.get(uid), "spec").get("nodeName", ""))
        if is_true(service, "Ready") and seen != address:
            yield f"externalservice {key} is Ready, and pod {uid} is seen as {seen or 'nothing'}, not {address}"
    if is_true(service, "Ready") and not rules:
        yield f"externalservice {key} is Ready without a rule"


def _is_of(forwarder: str, service: str) -> bool:
    return forwarder.partition("/")[2].rpartition(".")[0] == service.replace("/", ".")
