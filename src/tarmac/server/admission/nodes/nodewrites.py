"""Restricts metadata and Pods of nodes: a stolen node must block no deletion and lead no traffic to itself.

A finalizer keeps an object, its namespace and its Node for as long as the node likes, even after its removal; an owner
with `blockOwnerDeletion` keeps the owner. The addresses of Pods are read by Services and policies of all namespaces.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tarmac.api.checks import mapping, objects
from tarmac.api.kubernetes.priorityclasses import SYSTEM
from tarmac.api.schema import JsonObject
from tarmac.server.admission.chain import Attributes
from tarmac.server.admission.refusal import refuse
from tarmac.server.reader import Reader

NODES: Final = "core/nodes"
OWNED: Final = frozenset({"core/pods", "coordination.k8s.io/leases"})
METADATA: Final = frozenset({NODES, *OWNED, "core/events", "certificates.k8s.io/certificatesigningrequests"})
"""Buckets whose objects a node creates or updates as a whole. Of all others it writes the status only."""

_RELATIONS: Final = ("affinity", "topologySpreadConstraints")


def check_metadata(node: str, attributes: Attributes) -> None:
    """Refuse finalizers, and owners other than the node's own Node, also through the status. Raises Forbidden."""
    if attributes.obj is None or attributes.subresource not in ("", "status"):
        return
    new, old = mapping(attributes.obj, "metadata"), mapping(attributes.old, "metadata")
    if (new.get("finalizers") or []) != (old.get("finalizers") or []):
        raise refuse(attributes, f'node "{node}" is not allowed to modify metadata.finalizers')
    if (new.get("ownerReferences") or []) == (old.get("ownerReferences") or []):
        return
    own = all(_is_own(each, node) for each in objects(new, "ownerReferences"))
    if attributes.resource.bucket not in OWNED or not own:
        raise refuse(attributes, f'node "{node}" is not allowed to modify ownerReferences')


def _is_own(owner: JsonObject, node: str) -> bool:
    return (owner.get("kind"), owner.get("name")) == ("Node", node)


def check_mirror_spec(node: str, attributes: Attributes) -> None:
    """Refuse the fields of a mirror that would concern pods of others. Raises Forbidden."""
    spec = mapping(attributes.obj, "spec")
    for field in _RELATIONS:
        if spec.get(field):
            raise refuse(attributes, f"spec.{field}: a mirror pod is scheduled already; leave the field out")
    name = spec.get("priorityClassName")
    if name and name not in SYSTEM:
        listed = ", ".join(sorted(SYSTEM))
        raise refuse(attributes, f"spec.priorityClassName: of a mirror pod it is one of {listed}, or left out")


def check_addresses(node: str, attributes: Attributes, reader: Reader) -> None:
    """Refuse addresses of the host that are not addresses of the node. Raises Forbidden.

    A pod with its own network gets its address from the server or a network plugin; it is not checked here.
    """
    new, old = mapping(attributes.obj, "status"), mapping(attributes.old, "status")
    kinds = ("host", "pod") if mapping(attributes.old, "spec").get("hostNetwork") else ("host",)
    stated = {kind: set(_addresses(new, kind)) - set(_addresses(old, kind)) for kind in kinds}
    if not any(stated.values()):
        return
    # The stored Node decides, whose addresses `NodeAddresses` has checked: the report itself is the node's word.
    own = {each.get("address") for each in objects(mapping(reader.get(NODES, node), "status"), "addresses")}
    for kind, addresses in stated.items():
        if foreign := sorted(addresses - own):
            detail = f'status.{kind}IPs: {foreign[0][:64]!r} is no address in the status of node "{node}"'
            raise refuse(attributes, detail)


def _addresses(status: JsonObject, kind: str) -> Iterator[str]:
    yield from filter(None, [status.get(f"{kind}IP"), *(each.get("ip") for each in objects(status, f"{kind}IPs"))])
