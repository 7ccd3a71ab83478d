"""Computes the v1 Endpoints object of a Service from its pods, like Kubernetes' endpoints controller.

It lists the addresses of the Service's first family. A terminating pod is left out, unless the Service publishes
addresses that are not ready. Beyond a thousand addresses, or two thousand ports, it is truncated and annotated so. Its
labels are those of its Service, `managed-by` and `headless`; annotations of other clients are kept.

`endpoints.kubernetes.io/last-change-trigger-time` is the time of the change that caused the update: the earliest
readiness change among the pods that are newly listed or have changed their readiness. It is computed from the previous
object, so the controller needs no state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tarmac.api.schema import JsonObject
from tarmac.base.cooperative import CooperativeWork
from tarmac.decide.endpoints.groups import hostname_in, target_of
from tarmac.decide.endpoints.ports import ResolvedPort, ResolvedPorts
from tarmac.decide.endpoints.servicefacts import EndpointPod, ServiceFacts
from tarmac.decide.endpoints.subsets import CAPACITY, Address, Subset, SubsetAddresses, repacked, truncated, with_ports

LABEL_MANAGED_BY = "endpoints.kubernetes.io/managed-by"
MANAGED_BY = "endpoint-controller"
LABEL_HEADLESS = "service.kubernetes.io/headless"
TRIGGER_TIME = "endpoints.kubernetes.io/last-change-trigger-time"
OVER_CAPACITY = "endpoints.kubernetes.io/over-capacity"
MAX_PORT_ADDRESSES = 100 * CAPACITY  # limit of ports times addresses that are processed
PORTS = 2000  # limit of ports in one object, if pods resolve named ports differently; the server rejects larger ones


class EndpointsBuilder:
    """Builds the Endpoints object of a Service incrementally from its pods: there may be very many."""

    def __init__(self, service: ServiceFacts) -> None:
        self._service = service
        self._ports = ResolvedPorts(service)
        self._offers: dict[int, dict[Address, bool]] = {}  # by the index of the answer
        self._documents: dict[Address, JsonObject] = {}
        self._times: dict[Address, str] = {}

    def add(self, pod: EndpointPod) -> None:
        """Add a selected pod."""
        spec = self._service.spec
        if pod.status.ended or (pod.going and not spec.publish_not_ready_addresses):
            return
        addresses = pod.addresses(spec.ip_families[0] if spec.ip_families else "IPv4")
        answer = self._ports.answer(pod)
        if not addresses or (spec.ports and not self._ports.answers[answer]):
            return
        address = addresses[0], pod.metadata.uid
        self._offers.setdefault(answer, {})[address] = spec.publish_not_ready_addresses or pod.status.ready
        self._documents[address] = _address_document(self._service, pod, addresses[0])
        self._times[address] = pod.ready_since

    def object(self, known: JsonObject | None) -> CooperativeWork[JsonObject | None]:
        """Compute the wanted object cooperatively; None if the known one is up to date."""
        subsets = yield from repacked(
            [SubsetAddresses(self._ports.answers[each], held) for each, held in self._offers.items()],
            MAX_PORT_ADDRESSES,
        )
        listed = with_ports(subsets, PORTS)
        over_capacity = sum(len(each.ready) + len(each.not_ready) for each in listed) > CAPACITY
        listed = truncated(listed) if over_capacity else listed
        over_capacity |= len(listed) < len(subsets)
        documents: list[JsonObject] = []
        for each in listed:
            documents.append(self._subset_document(each))
            yield
        labels = _labels(self._service)
        if known is not None and _matches(known, documents, labels, over_capacity):
            return None
        return self._object(known, documents, labels, over_capacity)

    def _object(
        self, known: JsonObject | None, subsets: list[JsonObject], labels: Mapping[str, str], over_capacity: bool
    ) -> JsonObject:
        own = self._service.metadata
        before: JsonObject = known or {
            "apiVersion": "v1",
            "kind": "Endpoints",
            "metadata": {"name": own.name, "namespace": own.namespace},
        }
        written: dict[str, str | None] = dict(before["metadata"].get("annotations") or {})
        written[TRIGGER_TIME] = (own.creation_timestamp or "") if known is None else self._trigger(known, subsets)
        written[OVER_CAPACITY] = "truncated" if over_capacity else ""
        annotations = {name: text for name, text in written.items() if text}
        made = {**before, "metadata": {**before["metadata"], "labels": labels, "annotations": annotations}}
        made.pop("subsets", None)
        return {**made, "subsets": subsets} if subsets else made

    def _trigger(self, known: JsonObject, subsets: Sequence[JsonObject]) -> str:
        """Return the earliest readiness change of a pod that is listed differently than before, or an empty text."""
        anew = _listed(subsets) - _listed(known.get("subsets") or ())
        times = (self._times[address] for address, _ in anew)
        return min((time for time in times if time), default="")

    def _subset_document(self, subset: Subset) -> JsonObject:
        lists = {
            "addresses": [self._documents[each] for each in subset.ready],
            "notReadyAddresses": [self._documents[each] for each in subset.not_ready],
            "ports": [_port_document(each) for each in subset.ports],
        }
        return {name: listed for name, listed in lists.items() if listed}


def _matches(known: JsonObject, subsets: list[JsonObject], labels: Mapping[str, str], over_capacity: bool) -> bool:
    metadata = known["metadata"]
    return (
        (known.get("subsets") or []) == subsets
        and (metadata.get("labels") or {}) == labels
        and (OVER_CAPACITY in (metadata.get("annotations") or {})) == over_capacity
    )


def _listed(subsets: Sequence[JsonObject]) -> set[tuple[Address, bool]]:
    return {
        ((address["ip"], (address.get("targetRef") or {}).get("uid", "")), field == "addresses")
        for subset in subsets
        for field in ("addresses", "notReadyAddresses")
        for address in subset.get(field) or ()
    }


def _labels(service: ServiceFacts) -> dict[str, str]:
    own = {name: value for name, value in (service.metadata.labels or {}).items() if name != LABEL_HEADLESS}
    return {**own, **({LABEL_HEADLESS: ""} if service.headless else {}), LABEL_MANAGED_BY: MANAGED_BY}


def _address_document(service: ServiceFacts, pod: EndpointPod, ip: str) -> JsonObject:
    fields = {"ip": ip, "hostname": hostname_in(service, pod), "nodeName": pod.spec.node_name}
    return {**{name: text for name, text in fields.items() if text}, "targetRef": target_of(pod)}


def _port_document(port: ResolvedPort) -> JsonObject:
    document = port.document()
    return document if port.name else {name: value for name, value in document.items() if name != "name"}
