"""EndpointSlices as we write them and find them again."""

from __future__ import annotations

from typing import Any, NamedTuple

from tarmac.api.networking.names import ANNOTATION_NETWORK
from tarmac.api.schema import JsonObject
from tarmac.client.cache import Item
from tarmac.decide.endpoints import Group, ServiceFacts

MANAGER = "tarmac-service"
BY_SERVICE = "service"
LABEL_SERVICE = "kubernetes.io/service-name"
LABEL_MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
MANAGED_BY = "endpointslice-controller.datumapis.com"
_HEADLESS = {"service.kubernetes.io/headless": ""}


class Slice(NamedTuple):
    """A slice that is to be."""

    name: str
    service: ServiceFacts
    group: Group
    endpoints: tuple[JsonObject, ...]


def slice_document(wanted: Slice) -> JsonObject:
    """The object. It carries the labels of its Service and goes with it."""
    own, group = wanted.service.metadata, wanted.group
    owner = {
        "apiVersion": "v1",
        "kind": "Service",
        "name": own.name,
        "uid": own.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": wanted.name,
            "namespace": own.namespace,
            "labels": {
                **(own.labels or {}),
                **(_HEADLESS if wanted.service.headless else {}),
                LABEL_SERVICE: own.name,
                LABEL_MANAGED_BY: MANAGED_BY,
            },
            "annotations": {ANNOTATION_NETWORK: group.network} if group.network else {},
            "ownerReferences": [owner],
        },
        "addressType": group.family,
        "endpoints": list(wanted.endpoints),
        "ports": [port.document() for port in group.ports],
    }


def service_of(item: Item[Any]) -> tuple[str, ...]:
    """The key of the Service that a slice is of."""
    name = (item.metadata.labels or {}).get(LABEL_SERVICE)
    return (f"{item.metadata.namespace}/{name}",) if name else ()


def is_managed(item: Item[Any]) -> bool:
    """Whether a slice is ours to change."""
    return (item.metadata.labels or {}).get(LABEL_MANAGED_BY) == MANAGED_BY


def number_of(name: str, prefix: str) -> int | None:
    """Which slice of its group one is; None when it is of another."""
    start, _, number = name.rpartition("-")
    return int(number) if start == prefix and number.isdigit() else None
