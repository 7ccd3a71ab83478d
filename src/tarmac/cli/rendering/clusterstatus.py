"""The state of a cluster on one screen, and the same as a document."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from tarmac.base.duration import human_duration
from tarmac.cli.rendering.text import printable, table
from tarmac.decide.quorum import quorum_problems

DAY: Final = 86400.0
CERTIFICATE_SOON: Final = 30 * DAY
BACKUP_OLD: Final = 26 * 3600.0
_MAX_NAMES: Final = 5


@dataclass(slots=True)
class Member:
    """A server or a node. `trouble` is its problem in one word; empty when healthy."""

    name: str
    version: str = ""
    trouble: str = ""


@dataclass(slots=True)
class CityStatus:
    """A Location."""

    name: str
    code: str
    ready: int
    nodes: int
    trouble: str = ""


@dataclass(slots=True)
class Tunnels:
    """The tunnels between nodes: those that are closed, and whether any node probes them.

    `userspace` are the nodes that encrypt by a program, since their kernel has no driver.
    """

    closed: list[str]
    probed: bool
    userspace: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class ClusterStatus:
    """The collected status. None is an unknown part; `hidden` gives the reason for each."""

    servers: list[Member] | None = None
    store: dict[str, bool] | None = None  # check -> passes
    etcd: dict[str, bool] | None = None  # voting member -> responds, of an etcd that Tarmac runs; empty without one
    leader: str | None = None  # empty without a leader
    kubernetes_controllers: str | None = None  # their leader; empty if they ran once and do not now
    cities: list[CityStatus] | None = None
    nodes: list[Member] | None = None
    tunnels: Tunnels | None = None
    certificates: dict[str, float] | None = None  # remaining seconds
    backup: float | None = None  # age in seconds
    has_backup: bool | None = None
    conflicts: int = 0
    hidden: list[str] = field(default_factory=list[str])

    def problems(self) -> list[str]:
        """Return all problems, the worst first."""
        found = [f"server {each.name}: {each.trouble}" for each in self.servers or () if each.trouble]
        found += [f"store: the check {name} fails" for name, passes in (self.store or {}).items() if not passes]
        found += quorum_problems(self.etcd or {})
        if self.leader == "":
            found.append("no controllers lead: nothing is placed, scaled or repaired")
        if self.kubernetes_controllers == "":
            found.append(
                "no kube-controller-manager leads: Deployments, Jobs and their like stay as they are; start it, or "
                "delete its Lease in kube-system if none is to run"
            )
        found += [f"node {each.name}: {each.trouble}" for each in self.nodes or () if each.trouble]
        found += [f"tunnel closed: {each}" for each in (self.tunnels.closed if self.tunnels else ())]
        found += [f"location {each.name}: {each.trouble}" for each in self.cities or () if each.trouble]
        if self.conflicts:
            found.append(f"{self.conflicts} running pods are not as a restored state has them")
        found += [f"certificate {name} {_expiry(left)}" for name, left in self._ending()]
        if self.backup is not None and self.backup > BACKUP_OLD:
            found.append(f"the newest backup is {human_duration(self.backup)} old")
        return found

    def _ending(self) -> list[tuple[str, float]]:
        return [each for each in sorted((self.certificates or {}).items()) if each[1] < CERTIFICATE_SOON]

    def versions(self) -> dict[str, dict[str, int]]:
        """Count the versions of each kind."""
        kinds = {"servers": self.servers, "nodes": self.nodes}
        return {kind: dict(sorted(Counter(each.version or "unknown" for each in of or ()).items()))
                for kind, of in kinds.items()}  # fmt: skip


def status_document(status: ClusterStatus) -> dict[str, Any]:
    """Return the JSON document. Unknown parts are null."""
    problems = status.problems()
    return {
        "fine": not problems,
        "worst": problems[0] if problems else "",
        "problems": problems,
        "hidden": status.hidden,
        "servers": status.servers,
        "store": status.store,
        "etcd": status.etcd,
        "leader": status.leader,
        "kubernetesControllers": status.kubernetes_controllers,
        "cities": status.cities,
        "nodes": status.nodes,
        "tunnels": status.tunnels,
        "versions": status.versions(),
        "certificates": status.certificates,
        "backupAgeSeconds": status.backup,
    }


def status_screen(status: ClusterStatus) -> str:
    """Return the screen: a line for each part, and the problems, the worst first."""
    problems = status.problems()
    rows = [
        ("Servers", _members(status.servers)),
        ("Store", _store(status.store)),
        *_etcd(status.etcd or {}),
        ("Leader", _unknown if status.leader is None else printable(status.leader) or "none"),
        *_kubernetes(status.kubernetes_controllers),
        ("Cities", _cities(status.cities)),
        ("Nodes", _members(status.nodes)),
        ("Tunnels", _tunnels(status.tunnels)),
        ("Versions", _versions(status)),
        ("Certificates", _certificates(status)),
        ("Backup", _backup(status)),
        ("Problems", problems[0] if problems else "none"),
    ]
    lines = [table(("", ""), [(f"{name}:", text) for name, text in rows]).lstrip("\n")]
    more = problems[1 : 1 + _MAX_NAMES]
    lines += [f"Also: {printable(each)}" for each in more]
    if len(problems) > 1 + len(more):
        lines.append(f"Also: {len(problems) - 1 - len(more)} more; -o json lists all")
    lines += [f"Not seen: {printable(each)}" for each in status.hidden]
    return "\n".join(lines) + "\n"


_unknown: Final = "?"


def _kubernetes(leader: str | None) -> list[tuple[str, str]]:
    """Return the row of kube-controller-manager; none where it has never run."""
    return [] if leader is None else [("Kubernetes", f"led by {printable(leader)}" if leader else "not led")]


def _etcd(members: dict[str, bool]) -> list[tuple[str, str]]:
    """Return the row of an etcd that Tarmac runs; none without one."""
    silent = sorted(name for name, answers in members.items() if not answers)
    text = f"{len(members) - len(silent)} of {len(members)} members respond"
    return [("Etcd", f"{text}; not {_names(silent)}" if silent else text)] if members else []


def _members(members: list[Member] | None) -> str:
    if members is None:
        return _unknown
    bad = [each for each in members if each.trouble]
    text = f"{len(members) - len(bad)} of {len(members)} ready"
    return f"{text}; not {_names([each.name for each in bad])}" if bad else text


def _tunnels(tunnels: Tunnels | None) -> str:
    if tunnels is None:
        return _unknown
    slow = f"; slow between cities, by wireguard-go: {_names(tunnels.userspace)}"
    if not tunnels.closed:
        return ("open" if tunnels.probed else "not probed") + (slow if tunnels.userspace else "")
    more = len(tunnels.closed) - _MAX_NAMES
    return f"closed: {'; '.join(tunnels.closed[:_MAX_NAMES])}{f'; and {more} more' if more > 0 else ''}"


def _names(names: list[str]) -> str:
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return ", ".join(names[:_MAX_NAMES]) + more


def _store(store: dict[str, bool] | None) -> str:
    if store is None:
        return _unknown
    failing = [name for name, passes in store.items() if not passes]
    return f"fails: {', '.join(failing)}" if failing else "healthy"


def _cities(cities: list[CityStatus] | None) -> str:
    if cities is None:
        return _unknown
    shown = [f"{each.code or each.name} {each.ready}/{each.nodes}" for each in cities[:30]]
    more = [f"{len(cities) - len(shown)} more"] if len(cities) > len(shown) else []
    return ", ".join([*shown, *more]) or "none"


def _versions(status: ClusterStatus) -> str:
    parts = [
        f"{kind} {', '.join(f'{version} ({count})' for version, count in found.items())}"
        for kind, found in status.versions().items()
        if found
    ]
    return "; ".join(parts) or _unknown


def _certificates(status: ClusterStatus) -> str:
    if status.certificates is None:
        return _unknown
    ending = [f"{name} {_expiry(left)}" for name, left in sorted(status.certificates.items())
              if left < CERTIFICATE_SOON]  # fmt: skip
    return ", ".join(ending) or "none expiring within 30 days"


def _backup(status: ClusterStatus) -> str:
    if status.has_backup is None:
        return _unknown
    return f"{human_duration(status.backup)} old" if status.backup is not None else "there is none"


def _expiry(left: float) -> str:
    return f"expires in {human_duration(left)}" if left > 0 else "expired"
