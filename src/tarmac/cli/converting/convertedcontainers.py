"""Containers and volumes of a Pod template as those of a Workload."""

from __future__ import annotations

from typing import Final

from tarmac.api.schema import JsonObject
from tarmac.base.quantity import Quantity
from tarmac.cli.converting.notes import Notes

_COPIED: Final = (
    "name", "command", "args", "env", "envFrom", "workingDir", "imagePullPolicy", "readinessProbe", "livenessProbe",
    "startupProbe", "lifecycle",
)  # fmt: skip
_HANDLED: Final[dict[str, None]] = dict.fromkeys(
    ("image", "ports", "resources", "volumeMounts", "securityContext", "restartPolicy")
)
_DEFAULTS: Final = {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
_AMOUNTS: Final = ("cpu", "memory")
_GIB: Final = 2**30
_MIN_DISK, _MAX_DISK = 10, 100  # GiB


def container(source: JsonObject, path: str, volumes: frozenset[str], notes: Notes, *, alone: bool) -> JsonObject:
    """Return one container. `alone`: it has all resources of its instance, so it names none."""
    given = {key: value for key, value in source.items() if _DEFAULTS.get(key) != value}
    made = {**notes.copy(given, path, _COPIED, _HANDLED), "image": qualified(source.get("image", ""))}
    ports = [_port(each, f"{path}.ports[{index}]", notes) for index, each in enumerate(source.get("ports") or ())]
    mounts = [
        _attachment(each, f"{path}.volumeMounts[{index}]", notes)
        for index, each in enumerate(source.get("volumeMounts") or ())
        if each.get("name") in volumes
    ]
    security = notes.copy(
        source.get("securityContext") or {},
        f"{path}.securityContext",
        ("allowPrivilegeEscalation", "capabilities", "seccompProfile"),
    )
    requests = {} if alone else _share(source.get("resources") or {})
    return made | _present(
        ports=ports,
        volumeAttachments=mounts,
        securityContext=security,
        resources={"requests": requests} if requests else {},
    )


def _present(**parts: object) -> JsonObject:
    return {name: part for name, part in parts.items() if part}


def qualified(image: str) -> str:
    """Return an image with its registry, as Docker completes a short one."""
    first, slash, rest = image.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return image
    return f"docker.io/{image}" if slash and rest else f"docker.io/library/{image}"


def _port(port: JsonObject, path: str, notes: Notes) -> JsonObject:
    number = port.get("containerPort", 0)
    made = notes.copy(port, path, ("protocol",), dict.fromkeys(("name", "containerPort")))
    return {"name": port.get("name") or f"port-{number}", "port": number, **made}


def _attachment(mount: JsonObject, path: str, notes: Notes) -> JsonObject:
    return notes.copy(mount, path, ("name", "mountPath"))


def _share(resources: JsonObject) -> JsonObject:
    amounts = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {name: amounts[name] for name in _AMOUNTS if name in amounts}


def amounts(containers: list[JsonObject], inits: list[JsonObject], path: str, notes: Notes) -> JsonObject:
    """Return the resources of an instance: the sum of the containers, or what an init container needs."""
    made: JsonObject = {}
    for name, default in (("cpu", "250m"), ("memory", "256Mi")):
        parts = [_share(each.get("resources") or {}) for each in containers]
        total = Quantity.parse("0")
        for part in parts:
            total = total + Quantity.parse(str(part.get(name, "0")))
        for each in inits:
            total = max(total, Quantity.parse(str(_share(each.get("resources") or {}).get(name, "0"))))
        made[name] = str(total)
        if total == Quantity.parse("0"):
            made[name] = default
            notes.add(path, f"no container requests {name}: {default} for an instance")
        elif any(name not in part for part in parts):
            notes.add(path, f"some container requests no {name}: the sum of the others is for the whole instance")
    _note_resources(containers + inits, path, notes)
    return made


def _note_resources(containers: list[JsonObject], path: str, notes: Notes) -> None:
    for each in containers:
        resources = each.get("resources") or {}
        requests = resources.get("requests") or {}
        for name, limit in (resources.get("limits") or {}).items():
            if name in _AMOUNTS and requests.get(name, limit) != limit:
                notes.left(f"{path}[{each.get('name')}].resources.limits.{name}", "an instance has what it requests")
        for name in sorted({*requests, *(resources.get("limits") or {})} - set(_AMOUNTS)):
            notes.left(f"{path}[{each.get('name')}].resources.{name}")


def volume(source: JsonObject, path: str, notes: Notes) -> JsonObject | None:
    """Return one volume; None if a Workload has no such source."""
    name = source.get("name", "")
    for kind in ("configMap", "secret", "downwardAPI"):
        if source.get(kind) is not None:
            return {"name": name, kind: source[kind]}
    if (empty := source.get("emptyDir")) is not None:
        if empty.get("medium") != "Memory":
            notes.add(f"{path}.emptyDir", "becomes a filesystem in memory, which counts as the instance's memory")
        limit = {"sizeLimit": empty["sizeLimit"]} if empty.get("sizeLimit") else {}
        return {"name": name, "memory": limit}
    kind = next((key for key in source if key != "name"), "emptyDir")
    notes.left(f"{path}.{kind}", f"a Workload has no such volume; nothing mounts {name}")
    return None


def disk(claim: JsonObject, path: str, retain: bool, notes: Notes) -> JsonObject:
    """Return the disk that takes the place of a volume claim template."""
    spec = claim.get("spec") or {}
    requested = Quantity.parse(str(((spec.get("resources") or {}).get("requests") or {}).get("storage", "0"))).value()
    size = min(max(-(-requested // _GIB), _MIN_DISK), _MAX_DISK)
    if size * _GIB != requested:
        notes.add(
            f"{path}.spec.resources.requests.storage", f"{size}Gi: a disk has {_MIN_DISK} to {_MAX_DISK} whole Gi"
        )
    for field in ("storageClassName", "volumeMode", "dataSource", "selector"):
        if spec.get(field) not in (None, "", "Filesystem"):
            notes.left(f"{path}.spec.{field}")
    made = {
        "resources": {"requests": {"storage": f"{size}Gi"}},
        "populator": {"filesystem": {"type": "ext4"}},
        **({"retain": True} if retain else {}),
    }
    return {"name": claim["metadata"]["name"], "disk": {"template": {"spec": made}}}
