"""Plans an ExternalService or a SourceIPClaim: the decisions of controllers, before the object exists.

Claims of the same file are bound first, so that a service finds the addresses it would have. Which of several free
addresses a claim gets depends on its uid, which only the server assigns: such an address is not predicted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Final

from tarmac.api.catalog import Catalog
from tarmac.api.compute.explanations import Refused
from tarmac.api.declare import decode, encode
from tarmac.api.egress.externalservice import ExternalService
from tarmac.api.egress.names import API_VERSION
from tarmac.api.egress.plans import ExternalPlan, SourcePlan
from tarmac.api.egress.sourceip import ClaimReference, SourceIPClaim, SourceIPClaimStatus, SourceIPSpec
from tarmac.api.schema import JsonObject
from tarmac.decide.egress.binding import decide_claim
from tarmac.decide.egress.pool import Take, Takes
from tarmac.decide.egress.snapshotworld import SnapshotWorld
from tarmac.decide.egress.sourceresolution import ResolvedSource
from tarmac.decide.egress.sources import Resolution, resolve
from tarmac.decide.egress.views import EgressLookup
from tarmac.decide.plans.others import as_planned, laid_over, namespace_of, resource_of, stored_form, with_object
from tarmac.decide.snapshot.egressobjects import EXTERNAL_SERVICES, SOURCE_IP_CLAIMS, SOURCE_IPS
from tarmac.decide.snapshot.snapshot import Objects
from tarmac.decide.verdict import Refusal, Verdict

PLANNED: Final = (EXTERNAL_SERVICES.resource, SOURCE_IP_CLAIMS.resource)


def plan_external(
    snapshot: Objects, resource: str, obj: JsonObject, others: Iterable[JsonObject], catalog: Catalog
) -> ExternalPlan:
    """Return the plan of a manifest in its stored form, as if the other objects of its file existed.

    Objects of other namespaces count only if they exist: the client's right to create them is not checked, and an
    invented grant in another namespace would disclose the number of pods there. Raises BadRequest, Invalid.
    """
    namespace = obj["metadata"]["namespace"]
    counted = [each for each in others if namespace_of(each) in ("", namespace)]
    world = _Planning(laid_over(snapshot, counted, catalog, namespace))
    for each in counted:
        found = resource_of(catalog, each)
        if found is not None and found.bucket == SOURCE_IP_CLAIMS.resource:
            claim = stored_form(found, each)
            claim["metadata"].setdefault("namespace", namespace)
            world.bind(claim)
    return world.claim(obj) if resource == SOURCE_IP_CLAIMS.resource else world.service(obj)


class _Planning:
    """A snapshot in which claims are bound one after another."""

    def __init__(self, snapshot: Objects) -> None:
        self._snapshot = snapshot
        self._guessed: set[str] = set()  # addresses that stand for any free one of the class

    def claim(self, obj: JsonObject) -> ExternalPlan:
        """Return the plan of a claim."""
        claim = decode(SourceIPClaim, as_planned(self._snapshot, SOURCE_IP_CLAIMS.resource, obj))
        return plan_claim(claim, self._decided(claim))

    def service(self, obj: JsonObject) -> ExternalPlan:
        """Return the plan of an ExternalService."""
        planned = as_planned(self._snapshot, EXTERNAL_SERVICES.resource, obj)
        self._snapshot = with_object(self._snapshot, EXTERNAL_SERVICES.resource, planned)
        world = SnapshotWorld(self._snapshot)
        return plan_service(resolve(decode(ExternalService, planned), world), world, self._guessed)

    def bind(self, obj: JsonObject) -> None:
        """Bind a claim to the addresses it would get."""
        planned = as_planned(self._snapshot, SOURCE_IP_CLAIMS.resource, obj)
        claim = decode(SourceIPClaim, planned)
        takes = self._decided(claim).value or ()
        for take in takes:
            if not take.held:
                self._snapshot = with_object(self._snapshot, SOURCE_IPS.resource, _held(take, claim))
            if not _is_certain(claim, take):
                self._guessed.add(str(take.address))
        if takes:
            status = SourceIPClaimStatus(
                phase="Bound",
                addresses=[str(each.address) for each in takes],
                source_ip_names=[each.name for each in takes],
            )
            planned = {**planned, "status": encode(status)}
        self._snapshot = with_object(self._snapshot, SOURCE_IP_CLAIMS.resource, planned)

    def _decided(self, claim: SourceIPClaim) -> Verdict[Takes]:
        world = SnapshotWorld(self._snapshot)
        offered = world.address_class(claim.spec.class_name)
        return decide_claim(claim, offered, world.pool(offered) if offered is not None else None, world)


def _held(take: Take, claim: SourceIPClaim) -> JsonObject:
    own = claim.metadata
    spec = SourceIPSpec(str(take.address), claim.spec.class_name, claim.spec.location)
    spec.claim_ref = ClaimReference(own.namespace, own.name, own.uid)
    metadata = {"name": take.name, "uid": f"planned {take.name}"}
    made = {"apiVersion": API_VERSION, "kind": "SourceIP", "metadata": metadata}
    return {**made, "spec": encode(spec), "status": {"phase": "Bound"}}


def _is_certain(claim: SourceIPClaim, take: Take) -> bool:
    """Return True if the address does not depend on values that the server generates."""
    return take.known is not None or claim.spec.address == str(take.address)


def plan_service(found: Resolution, world: EgressLookup, guessed: Collection[str] = ()) -> ExternalPlan:
    """Return the plan of an ExternalService that the server accepts."""
    refused = [] if found.refusal is None else [_refused(found.refusal)]
    sources = [_planned(source, world, guessed) for source in found.sources]
    return ExternalPlan(True, sources=sources, refused=refused)


def _planned(source: ResolvedSource, world: EgressLookup, guessed: Collection[str]) -> SourcePlan:
    line = world.candidates(source.source_ip.metadata.name) if source.source_ip is not None else ()
    cities = Counter(pod.node.city for pod in source.pods)
    return SourcePlan(
        service=source.key,
        source_ip=source.address if source.address not in guessed else _any(source.address),
        cities=[f"{city} {pods}" for city, pods in sorted(cities.items())],
        gateway=line[0].name if line and source.address not in guessed else "",
        inbound=[f"{port.number}/{port.protocol}" for port in source.open_ports],
        refused=[_refused(each) for each in (*source.refusals, *source.remarks)],
    )


def plan_claim(claim: SourceIPClaim, verdict: Verdict[Takes]) -> ExternalPlan:
    """Return the addresses that a claim gets if the server accepts it."""
    takes = verdict.value or ()
    addresses = [str(take.address) if _is_certain(claim, take) else _any(str(take.address)) for take in takes]
    return ExternalPlan(True, addresses=addresses, refused=[_refused(each) for each in verdict.refusals])


def _any(address: str) -> str:
    return f"any free IPv{6 if ':' in address else 4} address"


def _refused(refusal: Refusal) -> Refused:
    return Refused(refusal.reason, refusal.message, refusal.change)
