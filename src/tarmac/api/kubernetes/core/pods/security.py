"""Validation of the security contexts of pods and containers."""

from __future__ import annotations

import re
from typing import Final

from tarmac.api import checks
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors

_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
SAFE_SYSCTLS: Final = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.tcp_wmem",
    }
)
"""Sysctls with effects on their own pod only: nodes permit them by default, and no security standard forbids them."""

_SYSCTL_SEGMENT = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL_TEXT = rf"^({_SYSCTL_SEGMENT}[\./])*{_SYSCTL_SEGMENT}$"
_SYSCTL = re.compile(_SYSCTL_TEXT, re.ASCII)
_IPC_SYSCTLS = ("kernel.shm", "kernel.msg", "fs.mqueue.")
_CHANGE_POLICIES = ("Always", "OnRootMismatch")


def validate_security_context(context: JsonObject, path: str, host_users: bool, errors: FieldErrors) -> None:
    """Check `securityContext` of a container. Privileged containers are valid; PodSecurity enforces policy."""
    for field in ("runAsUser", "runAsGroup"):
        if (number := context.get(field)) is not None:
            checks.user_or_group(number, f"{path}.{field}", errors)
    if (mount := context.get("procMount")) is not None:
        if mount not in ("Default", "Unmasked"):
            errors.not_supported(f"{path}.procMount", mount, ("Default", "Unmasked"))
        if host_users and mount == "Unmasked":
            errors.invalid(f"{path}.procMount", mount, "`hostUsers` must be false to use `Unmasked`")
    validate_seccomp(context.get("seccompProfile"), f"{path}.seccompProfile", errors)
    if context.get("allowPrivilegeEscalation") is False:
        prefix = "cannot set `allowPrivilegeEscalation` to false and "
        if context.get("privileged"):
            errors.invalid(path, context, prefix + "`privileged` to true")
        if "CAP_SYS_ADMIN" in ((context.get("capabilities") or {}).get("add") or ()):
            errors.invalid(path, context, prefix + "`capabilities.Add` CAP_SYS_ADMIN")
    validate_app_armor(context.get("appArmorProfile"), f"{path}.appArmorProfile", errors)


def validate_pod_security_context(spec: JsonObject, path: str, errors: FieldErrors) -> None:
    """Check `spec.securityContext` and the host namespaces beside it."""
    context = spec.get("securityContext") or {}
    for field in ("fsGroup", "runAsUser", "runAsGroup"):
        if (number := context.get(field)) is not None:
            checks.user_or_group(number, f"{path}.{field}", errors)
    for index, number in enumerate(context.get("supplementalGroups") or ()):
        checks.user_or_group(number, f"{path}.supplementalGroups[{index}]", errors)
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        errors.invalid(f"{path}.shareProcessNamespace", True, detail)
    if not context:
        return
    if sysctls := context.get("sysctls"):
        _validate_sysctls(sysctls, spec, f"{path}.sysctls", errors)
    _optional_choice(context, "fsGroupChangePolicy", _CHANGE_POLICIES, path, errors)
    validate_seccomp(context.get("seccompProfile"), f"{path}.seccompProfile", errors)
    validate_app_armor(context.get("appArmorProfile"), f"{path}.appArmorProfile", errors)
    _optional_choice(context, "supplementalGroupsPolicy", ("Merge", "Strict"), path, errors)
    _optional_choice(context, "seLinuxChangePolicy", ("MountOption", "Recursive"), path, errors)


def _optional_choice(
    context: JsonObject, field: str, supported: tuple[str, ...], path: str, errors: FieldErrors
) -> None:
    value = context.get(field)
    if value is not None and value not in supported:
        errors.not_supported(f"{path}.{field}", value, supported)


def _validate_sysctls(sysctls: list[JsonObject], spec: JsonObject, path: str, errors: FieldErrors) -> None:
    seen: set[str] = set()
    for index, sysctl in enumerate(sysctls):
        name, at = sysctl.get("name", ""), f"{path}[{index}].name"
        if not name:
            errors.required(at)
        elif len(name) > 253 or not _SYSCTL.match(name):
            errors.invalid(at, name, f"must have at most 253 characters and match regex {_SYSCTL_TEXT}")
        elif name in seen:
            errors.duplicate(at, name)
        dotted = name.replace("/", ".")
        if spec.get("hostNetwork") and dotted.startswith("net."):
            errors.invalid(at, name, "may not be specified when 'hostNetwork' is true")
        elif spec.get("hostIPC") and (dotted.startswith(_IPC_SYSCTLS) or dotted == "kernel.sem"):
            errors.invalid(at, name, "may not be specified when 'hostIPC' is true")
        seen.add(name)


def validate_seccomp(profile: JsonObject | None, path: str, errors: FieldErrors) -> None:
    """Check a seccompProfile, if set."""
    if profile is None:
        return
    kind, local = profile.get("type", ""), profile.get("localhostProfile")
    if kind not in _PROFILES:
        if kind:
            errors.not_supported(f"{path}.type", kind, _PROFILES)
        else:
            errors.required(f"{path}.type", "type is required when seccompProfile is set")
    if kind == "Localhost":
        if local is None:
            errors.required(f"{path}.localhostProfile", "must be set when seccomp type is Localhost")
        else:
            checks.relative_path(local, f"{path}.localhostProfile", errors)
    elif local is not None:
        shown = checks.go_struct(profile, ("Type", ""), ("LocalhostProfile", None))
        errors.invalid(f"{path}.localhostProfile", shown, "can only be set when seccomp type is Localhost")


def validate_app_armor(profile: JsonObject | None, path: str, errors: FieldErrors) -> None:
    """Check an appArmorProfile, if set."""
    if profile is None:
        return
    kind, local = profile.get("type", ""), profile.get("localhostProfile")
    at = f"{path}.localhostProfile"
    if kind == "Localhost":
        if not local:
            errors.required(at, "must be set when AppArmor type is Localhost")
        elif local != local.strip():
            errors.invalid(at, local, "must not be padded with whitespace")
        elif len(local) > 4095:
            errors.too_long(at, local, 4095)
    elif kind in _PROFILES:
        if local is not None:
            errors.invalid(at, local, "can only be set when AppArmor type is Localhost")
    elif kind:
        errors.not_supported(f"{path}.type", kind, _PROFILES)
    else:
        errors.required(f"{path}.type", "type is required when appArmorProfile is set")
