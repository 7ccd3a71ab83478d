"""Egress metadata of an instance: addresses to dial, their servers, and the source address these see.

It is read from this node's Forwarders, so that an instance sees exactly the rules in effect for it, and none of other
pods: rules name pods by uid.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tarmac.agent.sources.forwarders import own_forwarders
from tarmac.api.egress.forwarding import Forwarder
from tarmac.api.egress.names import end_point
from tarmac.client.cache import Item
from tarmac.client.informer import Informers

_BY_POD = "pod"

EgressFacts = list[dict[str, str]]


class PodEgress:
    """Egress rules of this node, by pod."""

    def __init__(self, informers: Informers, node: str) -> None:
        self._forwarders = own_forwarders(informers, node)
        self._forwarders.add_index(_BY_POD, _pods)

    def of(self, pod_uid: str) -> EgressFacts:
        """Return one entry for each port of each ExternalService that the pod may use."""
        found = (item.object for item in self._forwarders.indexed(_BY_POD, pod_uid))
        entries = [each for forwarder in found for each in _entries(forwarder, pod_uid)]
        return sorted(entries, key=lambda each: (each["externalService"], each["dial"], each["protocol"]))


def _pods(item: Item[Forwarder]) -> Iterable[str]:
    return {rule.pod for rule in item.object.spec.egress_rules}


def _entries(forwarder: Forwarder, pod_uid: str) -> Iterator[dict[str, str]]:
    spec = forwarder.spec
    service = spec.external_service
    for rule in spec.egress_rules:
        if rule.pod == pod_uid and service is not None:
            yield {
                "externalService": f"{service.namespace}/{service.name}",
                "protocol": rule.protocol,
                "dial": end_point(spec.service_ip, rule.target_port),
                "target": end_point(rule.destination_ip, rule.destination_port),
                "sourceIP": rule.gateway_ip,
            }
