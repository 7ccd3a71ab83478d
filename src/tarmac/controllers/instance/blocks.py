"""External reasons that block an Instance: exhausted quota, a Network that cannot be provisioned, a missing source.

The Instance has not failed, and continues when the reason is gone, but its status shows the reason.

ConfigMaps and Secrets are watched only once an Instance refers to one: most clusters have many that no Instance uses.
"""

from __future__ import annotations

from collections.abc import Iterator

from tarmac.api.compute.instance import Instance
from tarmac.api.compute.names import GATE_NETWORK, GATE_QUOTA, LABEL_DEPLOYMENT_NAME, QUOTA_GRANTED, binding_name
from tarmac.api.conditions import find
from tarmac.api.schema import JsonObject
from tarmac.client.controller import Controller
from tarmac.client.informer import Informer
from tarmac.client.targets.typed import NETWORK_BINDINGS, NETWORKS
from tarmac.client.targets.untyped import CONFIG_MAPS, SECRETS
from tarmac.controllers.context import ControllerContext
from tarmac.controllers.instance.dependents import DependentIndex
from tarmac.decide.addresses import overlap
from tarmac.decide.derived.requiredsources import CONFIG_MAP, SECRET, ObjectSource, sources, sources_missing
from tarmac.decide.verdict import Refusal

_BINDING = "NetworkBinding"
_TARGETS = {CONFIG_MAP: CONFIG_MAPS, SECRET: SECRETS}


class InstanceBlocks:
    """Looks up blocking reasons, and requeues the Instance when they change."""

    def __init__(self, context: ControllerContext, dependents: DependentIndex) -> None:
        self._informers = context.informers
        self._bindings = context.informers.informer(NETWORK_BINDINGS)
        self._known_networks = context.informers.informer(NETWORKS)
        self._sources: dict[str, Informer[JsonObject]] = {}
        self._dependents = dependents
        self._controller: Controller

    def wake(self, controller: Controller) -> None:
        """Set the controller to call for Instances whose blocking reasons change."""
        self._controller = controller
        controller.watches(self._bindings, self._dependents.woken_by(_BINDING))
        controller.awaits(self._known_networks)  # a new range is reported by the binding too

    async def of(self, key: str, instance: Instance, *, started: bool) -> tuple[Refusal, ...]:
        """Return the current reasons. Once its containers have started, missing sources do not matter."""
        controller = instance.spec.controller
        gates = {gate.name for gate in controller.scheduling_gates} if controller else set[str]()
        found: list[Refusal] = []
        if GATE_QUOTA in gates:
            found += _quota(instance)
        if GATE_NETWORK in gates:
            found += self._networks(key, instance)
        if not gates and not started:
            found += await self._missing(key, instance)
        return tuple(found)

    def _networks(self, key: str, instance: Instance) -> Iterator[Refusal]:
        deployment = instance.metadata.labels.get(LABEL_DEPLOYMENT_NAME, "")
        for index in range(len(instance.spec.network_interfaces)):
            binding_key = f"{instance.metadata.namespace}/{binding_name(deployment, index)}"
            # Before the read, without an await in between: no change of the binding is missed.
            self._dependents.note(key, _BINDING, binding_key)
            binding = self._bindings.get(binding_key)
            condition = find(binding.status.conditions, "Ready") if binding and binding.status else None
            if condition is not None and condition.status == "False":
                yield Refusal(condition.reason, condition.message, rule="network")
        clash = overlap(instance.metadata.namespace, instance.spec.network_interfaces, self._known_networks.get)
        if clash is not None:
            yield clash.refusal

    async def _missing(self, key: str, instance: Instance) -> list[Refusal]:
        missing: dict[ObjectSource, None] = {}
        for source in sources(instance.spec):
            source_key = f"{instance.metadata.namespace}/{source.name}"
            # No await between this look and the note: a source created in between would wake no Instance.
            if source_key not in (await self._known(source.kind)).cache:
                self._dependents.note(key, source.kind, source_key)
                missing[source] = None
        return [sources_missing(missing)] if missing else []

    async def _known(self, kind: str) -> Informer[JsonObject]:
        """Return the synced informer of a kind of source, starting it at first use."""
        informer = self._sources.get(kind)
        if informer is None:
            informer = self._sources[kind] = self._informers.informer(_TARGETS[kind])
            self._controller.watches(informer, self._dependents.woken_by(kind))
        # Until the first list every source would look missing.
        await informer.synced()
        return informer


def _quota(instance: Instance) -> Iterator[Refusal]:
    """Yield the refusal that the quota controller wrote into the Instance's condition."""
    condition = find(instance.status.conditions, QUOTA_GRANTED) if instance.status else None
    if condition is not None and condition.status == "False":
        yield Refusal(condition.reason, condition.message, rule="quota")
