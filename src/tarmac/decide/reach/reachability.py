"""Answers reachability questions (does A reach B, and as which address?) from a snapshot.

The answers use the same compilers that agents program the datapath with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from tarmac.api.compute.explanations import Answer, ExplanationLine, Reach, Reachability, ReachPath, Subject
from tarmac.api.compute.names import API_VERSION
from tarmac.api.egress.names import API_VERSION as SUBMARINER
from tarmac.api.kubernetes.core.pods.phases import is_terminal
from tarmac.api.networking.names import ANNOTATION_INTERFACES
from tarmac.base.digits import port_number
from tarmac.decide import reasons
from tarmac.decide.egress.compiling import dial_port
from tarmac.decide.egress.snapshotworld import SnapshotWorld
from tarmac.decide.egress.sources import Resolution, resolve
from tarmac.decide.reach.members import NetworkPod
from tarmac.decide.reach.paths import PathWalk, Sees
from tarmac.decide.reach.question import BadQuestion, ReachQuestion, ReachTarget
from tarmac.decide.reach.world import ReachWorld
from tarmac.decide.snapshot.egressobjects import EXTERNAL_SERVICES
from tarmac.decide.snapshot.snapshot import Snapshot
from tarmac.decide.verdict import Refusal

_SUBJECTS: Final = {
    "instance": (API_VERSION, "Instance"),
    "pod": ("v1", "Pod"),
    "service": ("v1", "Service"),
    "externalservice": (SUBMARINER, "ExternalService"),
    "address": ("", "Address"),
}


class NoSuchTarget(Exception):
    """The object does not exist. Carries the target."""

    def __init__(self, target: ReachTarget) -> None:
        super().__init__(f"{target.kind} {target.key} not found")
        self.target = target


def reachability(snapshot: Snapshot, sender: ReachTarget, question: ReachQuestion, sees: Sees) -> Reachability:
    """Compute the answer, in both directions if asked. Raises BadQuestion, NoSuchTarget."""
    world = ReachWorld(snapshot)
    there = _Asking(world, sees, sender, question).answered()
    back = None
    if question.both and question.target.kind in ("instance", "pod"):
        other = ReachQuestion(sender, str(there.port), question.protocol)
        back = _Asking(world, sees, question.target, other).answered()
    return Reachability(
        there.from_, there.to, there.port, there.protocol, there.answer, there.sentence, there.paths, there.change, back
    )


def objects_at(snapshot: Snapshot, sender: ReachTarget, address: str) -> list[tuple[str, str]]:
    """Return the objects that an answer about an address would name, as plural and key: its Pods and its Service."""
    world = ReachWorld(snapshot)
    member = world.member(sender.key)
    interfaces = member.interfaces if member is not None else ()
    holders = [holder for each in interfaces if (holder := world.holder(each.network, address))]
    found = [("pods", f"{each.namespace}/{each.name}") for each, _ in holders]
    service = world.service_at(address)
    return found if service is None else [*found, ("services", service.key)]


@dataclass(frozen=True, slots=True)
class _Asking:
    """A question in one direction."""

    world: ReachWorld
    sees: Sees
    sender: ReachTarget
    question: ReachQuestion

    def answered(self) -> Reach:
        """Compute the answer with its paths."""
        port = self._port()
        _require(self.world, self.sender)
        paths = self._paths(port)
        subjects = _subject(self.sender), _subject(self.question.target)
        answer = _together([path.answer for path in paths])
        template = f"{subjects[0]} {{}} {_named(subjects[1])} at {self.question.protocol} port {port}"
        change = " ".join(dict.fromkeys(line.change for path in paths for line in path.lines if line.change))
        return Reach(*subjects, port, self.question.protocol, answer, _sentence(template, answer, paths), paths, change)

    def _port(self) -> int:
        """Return the port number; a name is resolved by the target. Raises BadQuestion, NoSuchTarget."""
        text, target = self.question.port, self.question.target
        named = dict(self._named_ports(target))
        if (number := port_number(text)) is not None:
            return number
        if text not in named:
            known = f"; it has {', '.join(sorted(named))}" if named else ""
            raise BadQuestion(
                f"port: {target.kind} {target.name} calls no {self.question.protocol} port {text!r}{known}"
            )
        return named[text]

    def _named_ports(self, target: ReachTarget) -> Iterator[tuple[str, int]]:
        """Yield the target's named ports. Raises NoSuchTarget."""
        world, protocol = self.world, self.question.protocol
        if target.kind == "service":
            service = world.services.get(target.key)
            if service is None:
                raise NoSuchTarget(target)
            yield from ((each.name, each.port) for each in service.spec.ports or () if each.protocol == protocol)
        elif target.kind == "externalservice":
            external = EXTERNAL_SERVICES.get(world.snapshot, target.key)
            if external is None:
                raise NoSuchTarget(target)
            yield from ((each.name, each.port) for each in external.spec.ports if each.protocol == protocol)
        elif target.kind != "address":
            _require(world, target)
            pod = world.pod(target.key) or {"spec": {}}
            for container in pod["spec"].get("containers") or ():
                for each in container.get("ports") or ():
                    if each.get("name") and each.get("protocol", "TCP") == protocol:
                        yield each["name"], each["containerPort"]

    def _paths(self, port: int) -> list[ReachPath]:
        member, target = _settled(self.world, self.sender), self.question.target
        if isinstance(member, ReachPath):
            return [member]
        if target.kind == "address":
            return list(self._walk(member).to(target.name, port))
        if target.kind == "service":
            return self._to_service(member, target, port)
        if target.kind == "externalservice":
            return [external_path(self._walk(member), target.key, port)]
        other = _settled(self.world, target)
        return [other] if isinstance(other, ReachPath) else self._to_pod(member, other, port)

    def _to_service(self, member: NetworkPod, target: ReachTarget, port: int) -> list[ReachPath]:
        addresses = [each for each in self.world.services[target.key].addresses if _speaks(member, each)]
        if not addresses:
            message = f"Service {target.key} has no cluster address of a family that {self.sender.key} has."
            line = ExplanationLine("No", reasons.NO_ROUTE, message, "service")
            return [ReachPath("", "", "", "", "No", [line])]
        return [path for address in addresses for path in self._walk(member).to(address, port)]

    def _to_pod(self, member: NetworkPod, other: NetworkPod, port: int) -> list[ReachPath]:
        """Return the paths for each common address family, to the addresses on shared networks if there are any."""
        own, found = {each.network for each in member.interfaces}, list[ReachPath]()
        for six in (False, True):
            places = [
                (interface.network in own, address.partition("/")[0])
                for interface in other.interfaces
                for address in interface.addresses
                if (":" in address) == six and _speaks(member, address)
            ]
            shared = [address for is_shared, address in places if is_shared]
            for address in shared or [address for _, address in places[:1]]:
                found += self._walk(member, other).to(address, port)
        if found:
            return found
        networks = ", ".join(sorted({each.network for each in other.interfaces}))
        message = f"No family of addresses is common to the two; {self.question.target.key} is on {networks}."
        return [ReachPath("", "", "", "", "No", [ExplanationLine("No", reasons.NO_ROUTE, message, "route")])]

    def _walk(self, member: NetworkPod, expected: NetworkPod | None = None) -> PathWalk:
        walk = PathWalk(self.world, self.sees, member, self.question.protocol, expected)
        networks = ", ".join(sorted({each.network for each in member.interfaces}))
        walk.lines.append(
            ExplanationLine(
                "Yes", reasons.REACHABLE, f"{self.sender.key} is on Network {networks}.", "attached", "", member.node
            )
        )
        return walk


def _speaks(member: NetworkPod, address: str) -> bool:
    return any((":" in each) == (":" in address) for own in member.interfaces for each in own.addresses)


def _settled(world: ReachWorld, target: ReachTarget) -> NetworkPod | ReachPath:
    """Return the pod's network view, or a path that says why it has none."""
    pod = world.pod(target.key)
    if pod is None:
        line = ExplanationLine(
            "Wait", reasons.NOT_ATTACHED, f"{target.key} has no Pod yet: see `tarmac why`.", "attached"
        )
        return ReachPath("", "", "", "", "Wait", [line])
    member = world.member(target.key)
    if member is not None and member.interfaces:
        return member
    status, spec = pod.get("status") or {}, pod["spec"]
    answer: Answer = "Unknown"
    if spec.get("hostNetwork"):
        line = f"{target.key} has its node's own interfaces, of which no Network and no policy says anything"
    elif is_terminal(pod):
        return _ended(f"{target.key} has ended")
    elif (
        spec.get("nodeName")
        and status.get("podIP")
        and ANNOTATION_INTERFACES not in (pod["metadata"].get("annotations") or {})
    ):
        line = f"{target.key} has {status['podIP']} of a network that is not Tarmac's"
    else:
        answer, missing = "Wait", "no node" if not spec.get("nodeName") else "no address"
        line = f"{target.key} has {missing} yet: see `tarmac why`"
    reason = reasons.NODE_HAS_NO_DATAPATH if answer == "Unknown" else reasons.NOT_ATTACHED
    return ReachPath(
        "", "", "", "", answer, [ExplanationLine(answer, reason, f"{line}.", "attached", "", spec.get("nodeName", ""))]
    )


def _require(world: ReachWorld, target: ReachTarget) -> None:
    if world.pod(target.key) is None and not (target.kind == "instance" and world.has_instance(target.key)):
        raise NoSuchTarget(target)


def _ended(message: str) -> ReachPath:
    return ReachPath("", "", "", "", "No", [ExplanationLine("No", reasons.NO_SUCH_ADDRESS, f"{message}.", "attached")])


def _subject(target: ReachTarget) -> Subject:
    return Subject(*_SUBJECTS[target.kind], target.namespace, target.name)


def _named(subject: Subject) -> str:
    return subject.name if subject.kind == "Address" else str(subject)


def _together(answers: Sequence[Answer]) -> Literal["Yes", "Wait", "No", "Unknown", "Some"]:
    if len(set(answers)) == 1:
        return answers[0]
    if "Yes" in answers:
        return "Some"
    return "No" if "No" in answers else "Unknown"


def _sentence(template: str, answer: str, paths: Sequence[ReachPath]) -> str:
    detail = next((path.lines[-1].message for path in paths if path.answer != "Yes" and path.lines), "")
    if answer == "Yes":
        seen = sorted({path.seen_as for path in paths if path.seen_as})
        return template.format("reaches") + (f", seen as {', '.join(seen)}." if seen else ".")
    if answer == "Some":
        working = sum(path.answer == "Yes" for path in paths)
        return f"{template.format('reaches')} by {working} of {len(paths)} paths: {detail}"
    if answer == "Unknown":
        return f"It is unknown whether {template.format('reaches')}: {detail}"
    return f"{template.format('does not reach')}{' yet' if answer == 'Wait' else ''}: {detail}"


def external_path(walk: PathWalk, key: str, port: int) -> ReachPath:
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
    membership = (
        f"{walk.sender.namespace}/{walk.sender.name} is a pod of {source.key}, a source of ExternalService {key}."
    )
    walk.lines.append(ExplanationLine("Yes", reasons.REACHABLE, membership, "service"))
    interface = next(each for each in walk.sender.interfaces if each.network == pod.network)
    if not walk.permitted_out(interface, str(found.target), declared.port):
        return ReachPath(pod.network, pod.address, end, "", "No", walk.lines)
    seen = f"The server at {found.target} sees {source.address}."
    walk.lines.append(ExplanationLine("Yes", reasons.ADDRESS_BOUND, seen, "outside"))
    return ReachPath(pod.network, pod.address, end, source.address, "Yes", walk.lines)


def _refused(found: Resolution, walk: PathWalk, key: str, port: int, *, has_port: bool) -> ExplanationLine:
    if not has_port:
        return ExplanationLine(
            "No", reasons.NO_SUCH_ADDRESS, f"ExternalService {key} has no port {port}/{walk.protocol}.", "service"
        )
    refusals: list[Refusal] = [each for source in found.sources for each in source.refusals]
    first = found.refusal or next(iter(refusals), None)
    if first is not None:
        return ExplanationLine("No", first.reason, first.message, "service", change=first.change)
    own = f"{walk.sender.namespace}/{walk.sender.name}"
    message = f"{own} is a pod of no source of ExternalService {key}."
    change = f"Let a Service that is a source of ExternalService {key} select {own}."
    return ExplanationLine("No", reasons.NO_READY_ENDPOINT, message, "service", change=change)
