"""The Pod Security Standards as functions: each checks one rule on a Pod and returns its violation, or None.

A level is an ordered list of rules, in the order, the wording and the newest version of Kubernetes. `restricted`
replaces some rules of `baseline` by stricter ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from tarmac.api.kubernetes.core.pods.security import SAFE_SYSCTLS
from tarmac.api.schema import JsonObject

_CAPABILITIES = frozenset(
    {
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    }
)
_SELINUX_TYPES = frozenset({"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"})
_REMARKABLE = frozenset({"securityContext", "lifecycle", "livenessProbe", "readinessProbe", "startupProbe"})
_PROFILES = ("RuntimeDefault", "Localhost")
_VOLUMES = frozenset(
    {
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    }
)


class StandardViolation(NamedTuple):
    """A violated rule: short reason and details."""

    reason: str
    detail: str

    def __str__(self) -> str:
        return f"{self.reason} ({self.detail})"


Rule = Callable[[JsonObject], StandardViolation | None]


def violations(pod: JsonObject, level: str) -> list[StandardViolation]:
    """Return all violations of the level in the Pod."""
    if level == "baseline" and _is_plain(pod):
        return []
    return [found for rule in LEVELS[level] if (found := rule(pod)) is not None]


def _is_plain(pod: JsonObject) -> bool:
    """Return True if the Pod sets no field that a baseline rule checks. True for most Pods, and fast."""
    spec = pod["spec"]
    if spec.get("securityContext") or any(spec.get(field) for field in ("hostNetwork", "hostPID", "hostIPC")):
        return False
    if any("hostPath" in volume for volume in spec.get("volumes") or ()):
        return False
    return all(
        _REMARKABLE.isdisjoint(container) and not any(port.get("hostPort") for port in container.get("ports") or ())
        for container in _containers(pod)
    )


def _containers(pod: JsonObject) -> Iterator[JsonObject]:
    for field in ("initContainers", "containers", "ephemeralContainers"):
        yield from pod["spec"].get(field) or ()


def _context(container: JsonObject) -> JsonObject:
    return container.get("securityContext") or {}


def _names(pod: JsonObject, matches: Callable[[JsonObject], bool]) -> list[str]:
    return [container.get("name", "") for container in _containers(pod) if matches(container)]


def _quoted(items: Iterable[str]) -> str:
    return ", ".join(f'"{item}"' for item in items)


def _noun(word: str, names: Iterable[str]) -> str:
    """Return `container "a"` or `containers "a", "b"`."""
    listed = list(names)
    return f"{word if len(listed) == 1 else word + 's'} {_quoted(listed)}"


def _setters(pod: JsonObject, matches: Callable[[JsonObject], bool]) -> str:
    """Name the holders of a violation: `pod and container "a"`; empty without one."""
    parts = ["pod"] if matches(pod["spec"]) else []
    if names := _names(pod, matches):
        parts.append(_noun("container", names))
    return " and ".join(parts)


def _uses_user_namespace(pod: JsonObject) -> bool:
    return pod["spec"].get("hostUsers") is False


def _is_windows(pod: JsonObject) -> bool:
    return (pod["spec"].get("os") or {}).get("name") == "windows"


def _app_armor(pod: JsonObject) -> StandardViolation | None:
    def bad(holder: JsonObject) -> bool:
        profile = _context(holder).get("appArmorProfile")
        return profile is not None and profile.get("type") not in _PROFILES

    setters = _setters(pod, bad)
    if not setters:
        return None
    holders = [pod["spec"], *_containers(pod)]
    values = sorted({_context(holder)["appArmorProfile"].get("type", "") for holder in holders if bad(holder)})
    reason = "forbidden AppArmor profile" + ("s" if len(values) > 1 else "")
    return StandardViolation(reason, f"{setters} must not set AppArmor profile type to {_quoted(values)}")


def _added(container: JsonObject) -> list[str]:
    return (_context(container).get("capabilities") or {}).get("add") or []


def _capabilities(pod: JsonObject) -> StandardViolation | None:
    extra = sorted({name for container in _containers(pod) for name in _added(container)} - _CAPABILITIES)
    if not extra:
        return None
    names = _names(pod, lambda container: not _CAPABILITIES.issuperset(_added(container)))
    detail = f"{_noun('container', names)} must not include {_quoted(extra)} in securityContext.capabilities.add"
    return StandardViolation("non-default capabilities", detail)


def _host_namespaces(pod: JsonObject) -> StandardViolation | None:
    used = [f"{field}=true" for field in ("hostNetwork", "hostPID", "hostIPC") if pod["spec"].get(field)]
    return StandardViolation("host namespaces", ", ".join(used)) if used else None


def _host_paths(pod: JsonObject) -> StandardViolation | None:
    names = [volume.get("name", "") for volume in pod["spec"].get("volumes") or () if "hostPath" in volume]
    return StandardViolation("hostPath volumes", _noun("volume", names)) if names else None


def _host_ports(pod: JsonObject) -> StandardViolation | None:
    def used(container: JsonObject) -> list[int]:
        return [port["hostPort"] for port in container.get("ports") or () if port.get("hostPort")]

    names = _names(pod, lambda container: bool(used(container)))
    if not names:
        return None
    ports = sorted({str(port) for container in _containers(pod) for port in used(container)})
    verb, noun = ("uses" if len(names) == 1 else "use"), ("hostPort" if len(ports) == 1 else "hostPorts")
    return StandardViolation("hostPort", f"{_noun('container', names)} {verb} {noun} {', '.join(ports)}")


def _probe_hosts(pod: JsonObject) -> StandardViolation | None:
    def hosts(container: JsonObject) -> set[str]:
        lifecycle = container.get("lifecycle") or {}
        handlers = [container.get(name) for name in ("livenessProbe", "readinessProbe", "startupProbe")]
        handlers += [lifecycle.get("postStart"), lifecycle.get("preStop")]
        actions = [(handler or {}).get(kind) or {} for handler in handlers for kind in ("httpGet", "tcpSocket")]
        return {action["host"] for action in actions if action.get("host")}

    names = sorted(_names(pod, lambda container: bool(hosts(container))))
    if not names:
        return None
    used = sorted({host for container in _containers(pod) for host in hosts(container)})
    verb = "uses" if len(names) == 1 else "use"
    noun = "probe or lifecycle host" + ("s" if len(used) > 1 else "")
    return StandardViolation("probe or lifecycle host", f"{_noun('container', names)} {verb} {noun} {_quoted(used)}")


def _privileged(pod: JsonObject) -> StandardViolation | None:
    names = _names(pod, lambda container: bool(_context(container).get("privileged")))
    detail = f"{_noun('container', names)} must not set securityContext.privileged=true"
    return StandardViolation("privileged", detail) if names else None


def _proc_mount(pod: JsonObject) -> StandardViolation | None:
    def bad(container: JsonObject) -> bool:
        return _context(container).get("procMount", "Default") != "Default"

    names = _names(pod, bad)
    values = sorted({_context(container)["procMount"] for container in _containers(pod) if bad(container)})
    detail = f"{_noun('container', names)} must not set securityContext.procMount to {_quoted(values)}"
    return StandardViolation("procMount", detail) if names else None


def _proc_mount_baseline(pod: JsonObject) -> StandardViolation | None:
    return None if _uses_user_namespace(pod) else _proc_mount(pod)


def _selinux(pod: JsonObject) -> StandardViolation | None:
    def options(holder: JsonObject) -> JsonObject:
        return _context(holder).get("seLinuxOptions") or {}

    def bad(holder: JsonObject) -> bool:
        given = options(holder)
        return given.get("type", "") not in _SELINUX_TYPES or bool(given.get("user") or given.get("role"))

    setters = _setters(pod, bad)
    if not setters:
        return None
    holders = [options(holder) for holder in (pod["spec"], *_containers(pod))]
    data: list[str] = []
    if types := sorted({given.get("type", "") for given in holders} - _SELINUX_TYPES):
        data.append(_noun("type", types))
    data += [f"{field} may not be set" for field in ("user", "role") if any(given.get(field) for given in holders)]
    detail = f"{setters} set forbidden securityContext.seLinuxOptions: {'; '.join(data)}"
    return StandardViolation("seLinuxOptions", detail)


def _seccomp_of(holder: JsonObject) -> str | None:
    profile = _context(holder).get("seccompProfile")
    return None if profile is None else profile.get("type", "")


def _seccomp(pod: JsonObject) -> StandardViolation | None:
    def bad(holder: JsonObject) -> bool:
        return _seccomp_of(holder) not in (None, *_PROFILES)

    setters = _setters(pod, bad)
    if not setters:
        return None
    values = sorted({_seccomp_of(holder) or "" for holder in (pod["spec"], *_containers(pod)) if bad(holder)})
    detail = f"{setters} must not set securityContext.seccompProfile.type to {_quoted(values)}"
    return StandardViolation("seccompProfile", detail)


def _sysctls(pod: JsonObject) -> StandardViolation | None:
    sysctls = _context(pod["spec"]).get("sysctls") or ()
    names = [sysctl.get("name", "") for sysctl in sysctls if sysctl.get("name") not in SAFE_SYSCTLS]
    return StandardViolation("forbidden sysctls", ", ".join(names)) if names else None


def _host_process(pod: JsonObject) -> StandardViolation | None:
    def bad(holder: JsonObject) -> bool:
        return bool((_context(holder).get("windowsOptions") or {}).get("hostProcess"))

    setters = _setters(pod, bad)
    detail = f"{setters} must not set securityContext.windowsOptions.hostProcess=true"
    return StandardViolation("hostProcess", detail) if setters else None


def _escalation(pod: JsonObject) -> StandardViolation | None:
    names = _names(pod, lambda container: _context(container).get("allowPrivilegeEscalation") is not False)
    if not names or _is_windows(pod):
        return None
    detail = f"{_noun('container', names)} must set securityContext.allowPrivilegeEscalation=false"
    return StandardViolation("allowPrivilegeEscalation != false", detail)


def _restricted_capabilities(pod: JsonObject) -> StandardViolation | None:
    if _is_windows(pod):
        return None
    keeping = _names(pod, lambda c: "ALL" not in ((_context(c).get("capabilities") or {}).get("drop") or ()))
    allowed = frozenset({"NET_BIND_SERVICE"})
    adding = _names(pod, lambda container: not allowed.issuperset(_added(container)))
    details: list[str] = []
    if keeping:
        details.append(f'{_noun("container", keeping)} must set securityContext.capabilities.drop=["ALL"]')
    if adding:
        extra = sorted({name for container in _containers(pod) for name in _added(container)} - allowed)
        details.append(
            f"{_noun('container', adding)} must not include {_quoted(extra)} in securityContext.capabilities.add"
        )
    return StandardViolation("unrestricted capabilities", "; ".join(details)) if details else None


def _restricted_volumes(pod: JsonObject) -> StandardViolation | None:
    bad = [volume for volume in pod["spec"].get("volumes") or () if not _VOLUMES.intersection(volume)]
    if not bad:
        return None
    types = sorted({next((kind for kind in volume if kind != "name"), "unknown") for volume in bad})
    verb = "uses" if len(bad) == 1 else "use"
    noun = "restricted volume type" + ("s" if len(types) > 1 else "")
    listed = _noun("volume", (volume.get("name", "") for volume in bad))
    return StandardViolation("restricted volume types", f"{listed} {verb} {noun} {_quoted(types)}")


def _non_root(pod: JsonObject) -> StandardViolation | None:
    if _uses_user_namespace(pod):
        return None
    reason = "runAsNonRoot != true"
    if setters := _setters(pod, lambda holder: _context(holder).get("runAsNonRoot") is False):
        return StandardViolation(reason, f"{setters} must not set securityContext.runAsNonRoot=false")
    if _context(pod["spec"]).get("runAsNonRoot"):
        return None
    names = _names(pod, lambda container: _context(container).get("runAsNonRoot") is None)
    detail = f"pod or {_noun('container', names)} must set securityContext.runAsNonRoot=true"
    return StandardViolation(reason, detail) if names else None


def _root_user(pod: JsonObject) -> StandardViolation | None:
    if _uses_user_namespace(pod):
        return None
    setters = _setters(pod, lambda holder: _context(holder).get("runAsUser") == 0)
    return StandardViolation("runAsUser=0", f"{setters} must not set runAsUser=0") if setters else None


def _restricted_seccomp(pod: JsonObject) -> StandardViolation | None:
    if _is_windows(pod):
        return None
    if (found := _seccomp(pod)) is not None:
        return found
    if _seccomp_of(pod["spec"]) in _PROFILES:
        return None
    names = _names(pod, lambda container: _seccomp_of(container) is None)
    wanted = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return StandardViolation("seccompProfile", f"pod or {_noun('container', names)} {wanted}") if names else None


_BASELINE: tuple[Rule, ...] = (
    _app_armor,
    _capabilities,
    _host_namespaces,
    _host_paths,
    _host_ports,
    _probe_hosts,
    _privileged,
    _proc_mount_baseline,
    _selinux,
    _seccomp,
    _sysctls,
    _host_process,
)
_REPLACED = {_capabilities, _host_paths, _proc_mount_baseline, _seccomp}
_RESTRICTED: tuple[Rule, ...] = (
    *(rule for rule in _BASELINE if rule not in _REPLACED),
    _escalation,
    _restricted_capabilities,
    _proc_mount,
    _restricted_volumes,
    _non_root,
    _root_user,
    _restricted_seccomp,
)
LEVELS: dict[str, tuple[Rule, ...]] = {"privileged": (), "baseline": _BASELINE, "restricted": _RESTRICTED}
