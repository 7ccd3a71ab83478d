"""The interface of a Pod without an Instance, assigned when its node is known and written with the binding.

Such a Pod gets `eth0` on the `default` Network of its namespace, or on an internal Network in the system's namespaces.
The Network must be usable at the node's Location, so the first Pod there requests it with a NetworkBinding and is
retried shortly. Pods with hostNetwork need no interface, nor do Pods that already have the annotation. A node without a
Location is outside our Networks and connects its pods itself.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tarmac.api.conditions import find
from tarmac.api.networking.interfaces import encode_interfaces
from tarmac.api.networking.names import (
    ANNOTATION_DEFAULT_NETWORK,
    ANNOTATION_INTERFACES,
    LABEL_BOUND_FOR,
    context_name,
    pods_network,
)
from tarmac.api.networking.network import Network, NetworkBinding, NetworkBindingSpec, NetworkRef
from tarmac.api.partial import Partial, PartialMetadata
from tarmac.api.shared import LocationReference, ObjectMeta
from tarmac.api.status import AlreadyExists
from tarmac.client.cache import Item
from tarmac.client.targets.typed import NETWORK_BINDINGS
from tarmac.client.targets.untyped import NAMESPACES
from tarmac.controllers.attachments import Attaching
from tarmac.controllers.context import ControllerContext
from tarmac.controllers.ipam import pod_holder
from tarmac.decide import reasons
from tarmac.decide.addresses import refused_range
from tarmac.decide.verdict import Refusal, Verdict

MANAGER = "tarmac-scheduler"
INTERFACE = "eth0"
_NONE = encode_interfaces(())


class _Spec(Partial):
    host_network: bool = False


class _Pod(Partial):
    metadata: PartialMetadata
    spec: _Spec


_read = msgspec.json.Decoder(_Pod).decode


class PodInterfaceAssigner:
    """Assigns interfaces to Pods without an Instance.

    Disabled without our Networks or without the network controller.
    """

    def __init__(self, context: ControllerContext) -> None:
        informers = context.informers
        self.enabled = context.networked and "network" in context.running
        self._addresses = context.addresses
        self._attaching = Attaching(informers)
        self._namespaces = informers.informer(NAMESPACES) if self.enabled else None
        self._known_bindings = informers.informer(NETWORK_BINDINGS)
        self._bindings = context.client.resource(NETWORK_BINDINGS)
        own = (*self._attaching.informers, self._known_bindings, *self._addresses.informers)
        self.informers = (*own, self._namespaces) if self._namespaces is not None else ()
        self.subnets = self._attaching.subnets

    async def of(self, pod: Item[Any], location: str) -> Verdict[str]:
        """Return the interfaces annotation that the binding carries; empty when it carries none."""
        facts = _read(pod.raw)
        if not self.enabled or not location or facts.spec.host_network:
            return Verdict("")
        # Assigned already, as in the Pod of an Instance: a second set of addresses would never be used.
        if ANNOTATION_INTERFACES in (facts.metadata.annotations or {}):
            return Verdict("")
        namespace = pod.metadata.namespace
        network = self._attaching.networks.get(pods_network(namespace))
        if network is None or network.metadata.deletion_timestamp is not None:
            return Verdict(_NONE) if self._declines(namespace) else _no_network(pods_network(namespace))
        return await self._attach(pod.key, network, location)

    async def _attach(self, key: str, network: Network, location: str) -> Verdict[str]:
        if (refusal := refused_range(network)) is not None:
            return Verdict(None, (refusal,))
        own = network.metadata
        context = self._attaching.contexts.get(f"{own.namespace}/{context_name(own.name, location)}")
        families = network.spec.ip_families
        found = self._attaching.attachment(INTERFACE, network, context, families) if context else None
        if found is None:
            return await self._ask_for(network, location)
        # Repeating this for one Pod returns the same addresses: a binding that failed takes no second set.
        verdict = self._addresses.assign(pod_holder(key), self._attaching.leading([found]))
        return Verdict(None, verdict.refusals) if verdict.value is None else Verdict(encode_interfaces(verdict.value))

    async def _ask_for(self, network: Network, location: str) -> Verdict[str]:
        """Request the Network at the Location. Return the refusal: not provisioned yet, or the binding's failure."""
        own = network.metadata
        name = f"pods-{context_name(own.name, location)}"
        binding = self._known_bindings.get(f"{own.namespace}/{name}")
        if binding is None:
            await self._bind(name, network, location)
        ready = find(binding.status.conditions, "Ready") if binding is not None and binding.status else None
        if ready is not None and reasons.priority(ready.reason) > reasons.priority(reasons.PROVISIONING_NETWORK):
            return Verdict(None, (Refusal(ready.reason, ready.message, rule="network"),))
        return Verdict(None, (Refusal(reasons.PROVISIONING_NETWORK, "Network is being provisioned", rule="network"),))

    async def _bind(self, name: str, network: Network, location: str) -> None:
        namespace = network.metadata.namespace
        binding = NetworkBinding(
            metadata=ObjectMeta(name=name, namespace=namespace, labels={LABEL_BOUND_FOR: "pods"}),
            spec=NetworkBindingSpec(NetworkRef(network.metadata.name, namespace), LocationReference(location)),
        )
        try:
            await self._bindings.create(binding, manager=MANAGER)
        except AlreadyExists:
            return

    def _declines(self, namespace: str) -> bool:
        item = self._namespaces.cache.item(namespace) if self._namespaces is not None else None
        return item is not None and (item.metadata.annotations or {}).get(ANNOTATION_DEFAULT_NETWORK) == "none"


def _no_network(key: str) -> Verdict[str]:
    message, change = f"Network {key} does not exist.", f"Create Network {key}."
    return Verdict(None, (Refusal(reasons.NETWORK_NOT_FOUND, message, rule="network", change=change),))
