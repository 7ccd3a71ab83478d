"""Changes the OCI specification of a container between its creation and its start.

CRI cannot; containerd's own containers service, on the same socket, can: containerd creates the process from the
specification that is stored when the container starts.

Only the specification is written (`update_mask`), and fields that the patch does not name stay unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from tarmac.api.schema import JsonObject
from tarmac.runtimes.cri._generated import cri_subset_pb2 as pb
from tarmac.runtimes.cri.channel import CriChannel, Unsupported
from tarmac.runtimes.interface import RuntimeRefused

_SERVICE: Final = "containerd.services.containers.v1.Containers"
_NAMESPACE: Final = (("containerd-namespace", "k8s.io"),)
_SECONDS: Final = 30.0


async def amend(channel: CriChannel, id: str, changes: JsonObject) -> None:
    """Merge `changes` into the specification. Raises RuntimeFault."""
    try:
        found = await channel.call(
            f"{_SERVICE}/Get",
            pb.GetContainerdContainerRequest(id=id),
            pb.GetContainerdContainerResponse.FromString,
            _SECONDS,
            _NAMESPACE,
        )
        spec = found.container.spec
        value = msgspec.json.encode(merged(msgspec.json.decode(spec.value), changes))
        changed = pb.ContainerdContainer(id=id, spec=pb.Any(type_url=spec.type_url, value=value))
        request = pb.UpdateContainerdContainerRequest(container=changed, update_mask=pb.FieldMask(paths=["spec"]))
        await channel.call(f"{_SERVICE}/Update", request, pb.Nothing.FromString, _SECONDS, _NAMESPACE)
    except Unsupported as fault:
        raise RuntimeRefused(f"this runtime lets nobody change a container's specification: {fault}") from fault


def merged(before: Any, changes: Any) -> Any:
    """Apply a merge patch: mappings are merged, None removes, any other value replaces."""
    if not isinstance(changes, Mapping):
        return changes
    found: dict[str, Any] = dict(before) if isinstance(before, Mapping) else {}
    for key, value in changes.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = merged(found.get(key), value)
    return found
