"""Metadata of an instance, read from its Pod and from the node's egress rules.

A plain Pod gets the same fields, as far as they apply.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tarmac.agent.metadata.egress import EgressFacts
from tarmac.api.compute.names import API_VERSION, LABEL_CITY_CODE, LABEL_WORKLOAD_NAME
from tarmac.api.networking.interfaces import AttachedInterface, decode_interfaces
from tarmac.api.networking.names import ANNOTATION_INTERFACES
from tarmac.api.schema import JsonObject


def facts_of(pod: JsonObject, city: str, egress: EgressFacts) -> Mapping[str, Any]:
    """Return the metadata by field. `city` is the node's, for pods without one."""
    metadata = pod["metadata"]
    labels: dict[str, str] = metadata.get("labels") or {}
    return {
        "id": _identity(metadata),
        "name": metadata["name"],
        "namespace": metadata["namespace"],
        "workload": labels.get(LABEL_WORKLOAD_NAME, ""),
        "labels": labels,
        "addresses": _addresses((metadata.get("annotations") or {}).get(ANNOTATION_INTERFACES, "")),
        "city": labels.get(LABEL_CITY_CODE) or city,
        "egress": egress,
    }


def _identity(metadata: JsonObject) -> str:
    """Return the Instance's uid, which is stable over its Pods; a plain Pod's own uid."""
    owners = (each for each in metadata.get("ownerReferences") or () if each.get("controller"))
    instance = next((each for each in owners if (each["apiVersion"], each["kind"]) == (API_VERSION, "Instance")), None)
    return instance["uid"] if instance else metadata["uid"]


def _addresses(text: str) -> list[dict[str, str]]:
    try:
        interfaces = decode_interfaces(text) if text else []
    except msgspec.MsgspecError:
        return []
    return [each for interface in interfaces for each in _of(interface)]


def _of(interface: AttachedInterface) -> list[dict[str, str]]:
    return [
        {"interface": interface.name, "network": interface.network, "address": address, "mac": interface.mac}
        for address in interface.addresses
    ]
