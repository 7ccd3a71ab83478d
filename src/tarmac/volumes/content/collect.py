"""Collects the files of a projected volume from their objects.

`configMap`, `secret` and `downwardAPI` volumes are projections of one source; `projected` ones of several, of which the
later wins where paths collide.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tarmac.api.schema import JsonObject
from tarmac.volumes.content.downward import downward_files
from tarmac.volumes.content.files import ContentUnsupported, Payload, ProjectedFile, config_map_files, secret_files
from tarmac.volumes.interface import ObjectSources

DEFAULT_MODE = 0o644
TOKEN_SECONDS = 3600
_PRIVATE = 0o600


@dataclass(frozen=True, slots=True)
class Collector:
    """Collects for one pod. `allocatable` is the node's: it replaces limits that a container does not state."""

    pod: JsonObject
    sources: ObjectSources
    allocatable: Mapping[str, str]

    async def files(self, kind: str, source: JsonObject) -> Payload:
        """Return the files of a volume. Raises ContentMissing, ContentUnsupported, SourceUnavailable."""
        mode = source.get("defaultMode")
        mode = DEFAULT_MODE if mode is None else mode
        if kind != "projected":
            return await self._one(kind, source, mode)
        found: Payload = {}
        for projection in source.get("sources") or ():
            for each, inner in projection.items():
                found.update(await self._one(each, inner or {}, mode))
        return found

    async def _one(self, kind: str, source: JsonObject, mode: int) -> Payload:
        namespace = self.pod["metadata"]["namespace"]
        if kind == "configMap":
            return config_map_files(await self.sources.config_map(namespace, source["name"]), source, mode)
        if kind == "secret":
            name = source.get("secretName") or source["name"]
            return secret_files(await self.sources.secret(namespace, name), source, name, mode)
        if kind == "downwardAPI":
            return downward_files(source.get("items") or [], self.pod, self.allocatable, mode)
        if kind == "serviceAccountToken":
            return {source["path"]: await self._token(source, mode)}
        raise ContentUnsupported(f"this node does not offer projections of the kind {kind}")

    async def _token(self, source: JsonObject, mode: int) -> ProjectedFile:
        seconds = source.get("expirationSeconds") or TOKEN_SECONDS
        token, _ends = await self.sources.token(self.pod, source.get("audience") or "", seconds)
        file = ProjectedFile(token.encode(), mode)
        user = common_user(self.pod)
        # Only its reader may read a token; the group's access is added with the group.
        return file if user is None and fs_group(self.pod) is None else replace(file, mode=_PRIVATE, user=user)


def fs_group(pod: JsonObject) -> int | None:
    """Return the group that owns the pod's volumes, if it names one."""
    return (pod["spec"].get("securityContext") or {}).get("fsGroup")


def common_user(pod: JsonObject) -> int | None:
    """Return the user of all containers of the pod, if the pod states one for all."""
    spec = pod["spec"]
    whole = (spec.get("securityContext") or {}).get("runAsUser")
    containers = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
    users = {(each.get("securityContext") or {}).get("runAsUser", whole) for each in containers}
    return users.pop() if len(users) == 1 else None
