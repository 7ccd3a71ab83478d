"""Finds missing sources of a pod: ConfigMaps, Secrets and claims that are not optional.

A pod with a missing volume source only reports that it is being created; its node reports the cause by events, which
expire.
"""

from __future__ import annotations

from collections.abc import Iterator

from tarmac.api.schema import JsonObject
from tarmac.decide.derived.sources import CONFIG_MAP, SECRET, ObjectSource, sources_missing
from tarmac.decide.snapshot.snapshot import CLAIMS, CONFIG_MAPS, SECRETS, Snapshot
from tarmac.decide.verdict import Refusal

_CLAIM = "PersistentVolumeClaim"
_RESOURCES = {CONFIG_MAP: CONFIG_MAPS.resource, SECRET: SECRETS.resource, _CLAIM: CLAIMS.resource}


def missing_sources(snapshot: Snapshot, pod: JsonObject) -> Refusal | None:
    """Return a refusal that names all missing sources; None when none is missing, as far as the snapshot can tell."""
    namespace = pod["metadata"]["namespace"]
    needed = (each for each in dict.fromkeys(_sources(pod["spec"])) if snapshot.holds(_RESOURCES[each.kind]))
    missing = [each for each in needed if snapshot.get(_RESOURCES[each.kind], f"{namespace}/{each.name}") is None]
    return sources_missing(missing) if missing else None


def _sources(spec: JsonObject) -> Iterator[ObjectSource]:
    for volume in spec.get("volumes") or ():
        yield from _mounted(volume)
        if claim := volume.get("persistentVolumeClaim"):
            yield ObjectSource(_CLAIM, claim["claimName"])
        for source in (volume.get("projected") or {}).get("sources") or ():
            yield from _mounted(source)
    for field in ("initContainers", "containers"):
        for container in spec.get(field) or ():
            yield from _environment(container)


def _mounted(volume: JsonObject) -> Iterator[ObjectSource]:
    """Yield the sources of a volume, or of one source of a projected volume: there a Secret's name is in `name`."""
    yield from _required(CONFIG_MAP, volume.get("configMap"))
    yield from _required(SECRET, volume.get("secret"), "name", "secretName")


def _environment(container: JsonObject) -> Iterator[ObjectSource]:
    for source in container.get("envFrom") or ():
        yield from _required(CONFIG_MAP, source.get("configMapRef"))
        yield from _required(SECRET, source.get("secretRef"))
    for variable in container.get("env") or ():
        source = variable.get("valueFrom") or {}
        yield from _required(CONFIG_MAP, source.get("configMapKeyRef"))
        yield from _required(SECRET, source.get("secretKeyRef"))


def _required(kind: str, reference: JsonObject | None, *fields: str) -> Iterator[ObjectSource]:
    if reference and not reference.get("optional"):
        name = next((reference[field] for field in fields or ("name",) if reference.get(field)), "")
        if name:
            yield ObjectSource(kind, name)
