"""Indexes shared by several controllers: bindings by Network or context, deployments by Location.

Informers are shared, and so are their indexes: the first controller adds an index, and every controller must use the
same function for the same name.
"""

from __future__ import annotations

from typing import Any

from tarmac.api.compute.workload import WorkloadDeployment
from tarmac.api.networking.names import context_name
from tarmac.api.networking.network import NetworkBinding, NetworkContext
from tarmac.client.cache import Item

BY_CONTEXT, BY_LOCATION, BY_NETWORK = "context", "location", "network"


def network_key(binding: NetworkBinding) -> str:
    """Return the key of the Network that a binding requests."""
    wanted = binding.spec.network
    return f"{wanted.namespace or binding.metadata.namespace}/{wanted.name}"


def context_key(binding: NetworkBinding) -> str:
    """Return the key of the context that serves a binding. The context may not exist yet."""
    namespace = binding.spec.network.namespace or binding.metadata.namespace
    return f"{namespace}/{context_name(binding.spec.network.name, binding.spec.location.name)}"


def network_of_binding(item: Item[NetworkBinding]) -> tuple[str, ...]:
    """Index: bindings by the key of their Network."""
    return (network_key(item.object),)


def network_of_context(item: Item[NetworkContext]) -> tuple[str, ...]:
    """Index: contexts by the key of their Network."""
    return (f"{item.metadata.namespace}/{item.object.spec.network.name}",)


def context_of_binding(item: Item[NetworkBinding]) -> tuple[str, ...]:
    """Index: bindings by the key of their context."""
    return (context_key(item.object),)


def context_of_claim(item: Item[Any]) -> tuple[str, ...]:
    """Index: claims, or subnets, by the key of their context."""
    return (f"{item.metadata.namespace}/{item.object.spec.network_context.name}",)


def assigned_location(item: Item[WorkloadDeployment]) -> tuple[str, ...]:
    """Index: deployments by the Location that the scheduler assigned."""
    status = item.object.status
    return (status.location.name,) if status is not None and status.location is not None else ()
