"""Readable log of a scenario: objects created and deleted, and changed conditions with their reasons."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tarmac.api.conditions import condition_of
from tarmac.api.egress.names import GROUP as SUBMARINER
from tarmac.api.networking.names import GROUP as NETWORKING
from tarmac.api.schema import JsonObject
from tarmac.sim.checker.replay import DEPLOYMENTS, INSTANCES, NODES, PODS, WORKLOADS, Mirror, ObjectChange

_LOCATIONS = f"{NETWORKING}/locations"
_SHOWN = {
    WORKLOADS: ("workload", ("Available", "Progressing")),
    DEPLOYMENTS: ("deployment", ("Available", "Progressing")),
    INSTANCES: ("instance", ("Ready",)),
    _LOCATIONS: ("location", ("Ready",)),
    NODES: ("node", ("Ready",)),
    f"{SUBMARINER}/externalservices": ("extsvc", ("Ready",)),
    f"{SUBMARINER}/sourceipclaims": ("claim", ("Bound",)),
    f"{SUBMARINER}/sourceips": ("sourceip", ("Owned",)),
}


def stamp(seconds: float) -> str:
    """Format virtual time as `h:mm:ss.t`."""
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(int(minutes), 60)
    return f"{hours}:{minutes:02}:{rest:04.1f}"


class Timeline:
    """A checker rule that finds no violations: it prints changes while `on`."""

    name = "teller"

    def __init__(self, print_line: Callable[[str], None]) -> None:
        self.on = False
        self._print_line = print_line

    def look(self, mirror: Mirror, change: ObjectChange) -> Iterator[str]:
        """Print one change."""
        for line in lines(change) if self.on else ():
            self._print_line(line)
        return iter(())


def lines(change: ObjectChange) -> Iterator[str]:
    """Yield the lines for one change."""
    if change.bucket == PODS:
        yield from _pod(change)
        return
    shown = _SHOWN.get(change.bucket)
    if shown is None:
        return
    kind, conditions = shown
    what = f"{kind:<10} {change.key.removeprefix('default/')}"
    if change.new is None:
        yield f"{what} is gone"
        return
    if change.old is None:
        yield f"{what} is made"
    elif "deletionTimestamp" in change.new["metadata"] and "deletionTimestamp" not in change.old["metadata"]:
        yield f"{what} is to go"
    for name in conditions:
        before, after = condition_of(change.old, name), condition_of(change.new, name)
        if after and _gist(before) != _gist(after):
            message = f": {after['message']}" if after.get("message") and after["status"] != "True" else ""
            yield f"{what} {name}={after['status']} {after.get('reason', '')}{message}"


def _pod(change: ObjectChange) -> Iterator[str]:
    """Yield a line when a pod is bound; everything else shows in its Instance."""
    if change.new is None or change.old is None:
        return
    node = change.new["spec"].get("nodeName")
    if node and not change.old["spec"].get("nodeName"):
        yield f"{'pod':<10} {change.key.removeprefix('default/')} goes to {node}"


def _gist(condition: JsonObject) -> tuple[str | None, str | None]:
    return condition.get("status"), condition.get("reason")
