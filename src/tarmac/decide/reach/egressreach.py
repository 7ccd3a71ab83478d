"""Evaluates the path to an ExternalService: its controller's decisions, then the policies on the pod."""

from __future__ import annotations

from tarmac.api.compute.explanations import Line, ReachPath
from tarmac.decide import reasons
from tarmac.decide.egress.compiling import dial_port
from tarmac.decide.egress.snapshotworld import SnapshotWorld
from tarmac.decide.egress.sources import Resolution, resolve
from tarmac.decide.reach.paths import Walk
from tarmac.decide.snapshot.egressobjects import EXTERNAL_SERVICES
from tarmac.decide.verdict import Refusal


def external_path(walk: Walk, key: str, port: int) -> ReachPath:
    """Evaluate if the pod is a source and its policies allow egress. `port` is the server's port or the dialled one."""
    service = EXTERNAL_SERVICES.get(walk.world.snapshot, key)
    assert service is not None
    found = resolve(service, SnapshotWorld(walk.world.snapshot))
    target = f"[{found.target}]" if found.target.version == 6 else str(found.target)
    declared = next(
        (
            each
            for each in service.spec.ports
            if each.protocol == walk.protocol and port in (each.port, dial_port(each))
        ),
        None,
    )
    source = next((each for each in found.working for pod in each.pods if pod.uid == walk.sender.uid), None)
    pod = next((each for each in source.pods if each.uid == walk.sender.uid), None) if source is not None else None
    if declared is None or source is None or pod is None:
        walk.lines.append(_refused(found, walk, key, port, has_port=declared is not None))
        return ReachPath("", "", f"{target}:{port}", "", "No", walk.lines)
    end = f"{target}:{declared.port}"
    said = f"{walk.sender.namespace}/{walk.sender.name} is a pod of {source.key}, a source of ExternalService {key}."
    walk.lines.append(Line("Yes", reasons.REACHABLE, said, "service"))
    interface = next(each for each in walk.sender.interfaces if each.network == pod.network)
    if not walk.permitted_out(interface, str(found.target), declared.port):
        return ReachPath(pod.network, pod.address, end, "", "No", walk.lines)
    seen = f"The server at {found.target} sees {source.address}."
    walk.lines.append(Line("Yes", reasons.ADDRESS_BOUND, seen, "outside"))
    return ReachPath(pod.network, pod.address, end, source.address, "Yes", walk.lines)


def _refused(found: Resolution, walk: Walk, key: str, port: int, *, has_port: bool) -> Line:
    if not has_port:
        return Line(
            "No", reasons.NO_SUCH_ADDRESS, f"ExternalService {key} has no port {port}/{walk.protocol}.", "service"
        )
    refusals: list[Refusal] = [each for source in found.sources for each in source.refusals]
    first = found.refusal or next(iter(refusals), None)
    if first is not None:
        return Line("No", first.reason, first.message, "service", change=first.change)
    own = f"{walk.sender.namespace}/{walk.sender.name}"
    message = f"{own} is a pod of no source of ExternalService {key}."
    change = f"Let a Service that is a source of ExternalService {key} select {own}."
    return Line("No", reasons.NO_READY_ENDPOINT, message, "service", change=change)
