"""Safety rules, which must hold at every moment under all faults.

Each rule keeps only the state needed to check the next change. Controllers act on data that faults make stale, so a
limit that was lowered may still be used for `STALE` seconds.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from math import ceil, inf

from tarmac.api.compute.names import GATE_QUOTA, LABEL_DEPLOYMENT_UID, LABEL_INSTANCE_INDEX
from tarmac.api.conditions import condition_of
from tarmac.api.kubernetes.core.nodeclasses import offered_classes
from tarmac.api.kubernetes.core.pods.phases import is_terminal
from tarmac.api.kubernetes.runtimeclasses import MACHINE_CLASS
from tarmac.api.networking.interfaces import decode_interfaces
from tarmac.api.networking.names import ANNOTATION_INTERFACES
from tarmac.api.schema import JsonObject
from tarmac.base.quantity import Quantity
from tarmac.decide.exclusivecpus import CPU_EXCLUSIVE, exclusive_peak
from tarmac.decide.qosclasses.counting import Place, Places, places
from tarmac.sim.checker.replay import DEPLOYMENTS, INSTANCES, LEASES, NODES, PODS, QUOTAS, Mirror, ObjectChange

STALE = 150.0
REJECTED = "Pod was rejected: "
"""Prefix of a node's message about a rejected pod."""
_LEASE_NAMESPACE = "kube-node-lease/"
ON_ITS_WAY = 45.0  # seconds that a write may take to arrive: the node may be back by then


def labels(obj: JsonObject) -> Mapping[str, str]:
    """Return the labels of an object."""
    return obj["metadata"].get("labels") or {}


def desired(deployment: JsonObject) -> int:
    """Return the number of Instances that a deployment wants."""
    spec = deployment["spec"]
    scale = spec["scaleSettings"]
    wanted = spec.get("replicas")
    least = scale["minReplicas"]
    return min(max(least if wanted is None else wanted, least), scale.get("maxReplicas") or 1000)


def allowed(deployment: JsonObject) -> int:
    """Return the number of Instances that it may have at once."""
    surge = (deployment["spec"].get("rollout") or {}).get("maxSurge", 0)
    number = desired(deployment)
    if isinstance(surge, str) and surge.endswith("%"):
        surge = ceil(number * int(surge[:-1]) / 100)
    return number + int(surge)


class OrdinalsAreUnique:
    """No two Instances of a deployment have the same ordinal, and no Instance has two Pods."""

    name = "ordinals-unique"

    def look(self, mirror: Mirror, change: ObjectChange) -> Iterator[str]:
        """Check that a new Instance or Pod is the only one with its ordinal."""
        if change.new is None or change.old is not None or change.bucket not in (INSTANCES, PODS):
            return
        mine = labels(change.new)
        identity = (mine.get(LABEL_DEPLOYMENT_UID), mine.get(LABEL_INSTANCE_INDEX))
        if None in identity:
            return
        for key, other in mirror.bucket(change.bucket).items():
            theirs = labels(other)
            if key != change.key and (theirs.get(LABEL_DEPLOYMENT_UID), theirs.get(LABEL_INSTANCE_INDEX)) == identity:
                yield f"{change.key} and {key} are both number {identity[1]} of deployment {identity[0]}"


class AddressesAreUnique:
    """No two live Instances share an address. A Pod repeats the addresses of the Instance with its name."""

    name = "addresses-unique"

    def __init__(self) -> None:
        self._holders: dict[tuple[str, str], Counter[str]] = {}

    def look(self, mirror: Mirror, change: ObjectChange) -> Iterator[str]:
        """Count holders by the Instance's name, for Instances and their Pods."""
        if change.bucket not in (INSTANCES, PODS):
            return
        before, after = set(_addresses(change.old)), set(_addresses(change.new))
        for held in sorted(before - after):
            holders = self._holders[held]
            holders[change.key] -= 1
            if not holders[change.key]:
                del holders[change.key]
        for held in sorted(after - before):
            holders = self._holders.setdefault(held, Counter())
            holders[change.key] += 1
            if len(holders) > 1:
                yield f"{held[1]} of network {held[0]} is held by {', '.join(sorted(holders))}"


def _addresses(obj: JsonObject | None) -> Iterable[tuple[str, str]]:
    text = (obj["metadata"].get("annotations") or {}).get(ANNOTATION_INTERFACES) if obj is not None else None
    for interface in decode_interfaces(text) if text else ():
        for address in interface.addresses:
            yield interface.network, address.partition("/")[0]


class NeverTooMany:
    """A deployment never gets more Instances than it wants, plus the surge of a rollout."""

    name = "never-too-many"

    def __init__(self) -> None:
        self._limits: dict[str, deque[tuple[float, int]]] = {}  # by uid: (end of validity, limit)

    def look(self, mirror: Mirror, change: ObjectChange) -> Iterator[str]:
        """Check each new Instance against the highest recent limit."""
        if change.bucket == DEPLOYMENTS and change.new is not None:
            limits = self._limits.setdefault(change.new["metadata"]["uid"], deque())
            now = allowed(change.new)
            if limits and limits[-1][1] == now:
                return
            if limits:
                limits[-1] = (change.time, limits[-1][1])
            limits.append((inf, now))
        elif change.bucket == INSTANCES and change.old is None and change.new is not None:
            uid = labels(change.new).get(LABEL_DEPLOYMENT_UID, "")
            limits = self._limits.get(uid, deque())
            while limits and limits[0][0] < change.time - STALE:
                limits.popleft()
            most = max((limit for _, limit in limits), default=0)
            there = sum(1 for each in mirror.bucket(INSTANCES).values() if _counts(each, uid))
            if there > most:
                yield f"{change.key} is one of {there}, and {most} are allowed"


def _counts(instance: JsonObject, deployment: str) -> bool:
    return labels(instance).get(LABEL_DEPLOYMENT_UID) == deployment and "deletionTimestamp" not in instance["metadata"]


class QuotaHolds:
    """Nothing new starts beyond a quota: no Pod is created, and no Instance passes its gate.

    The server counts Pods itself, so a quota binds them at once; the controller that admits Instances learns of it
    later.
    """

    name = "quota-holds"

    def __init__(self) -> None:
        self._since: dict[str, float] = {}  # when a quota was last changed

    def look(self, mirror: Mirror, change: ObjectChange) -> Iterator[str]:
        """Check each new Pod, and each Instance that has just been admitted."""
        if change.new is None:
            return
        if change.bucket == QUOTAS and (change.old is None or change.old["spec"] != change.new["spec"]):
            self._since[change.key] = change.time
        namespace = change.key.partition("/")[0]
        if change.bucket == PODS and change.old is None:
            used = _pods_used(mirror, namespace) | _classes_used(mirror.bucket(PODS), namespace, change.new)
        elif change.bucket == INSTANCES and _released(change):
            used = {"count/instances.compute.datumapis.com": Quantity.parse(_released_count(mirror, namespace))}
            let_through = {key: each for key, each in mirror.bucket(INSTANCES).items() if not _gated(each)}
            used |= _classes_used(let_through, namespace, change.new)
        else:
            return
        for key, quota in mirror.bucket(QUOTAS).items():
            heard = change.bucket == PODS or change.time - self._since[key] > ON_ITS_WAY
            if not key.startswith(f"{namespace}/") or not heard:
                continue
            for resource, hard in {**(quota["spec"].get("hard") or {}), **_class_limits(quota["spec"], used)}.items():
                if resource in used and used[resource] > Quantity.parse(hard):
                    yield f"{change.key} makes {resource} {used[resource]} of {hard} (quota {key})"


def _gated(instance: JsonObject) -> bool:
    gates = (instance["spec"].get("controller") or {}).get("schedulingGates") or ()
    return any(gate["name"] == GATE_QUOTA for gate in gates)


def _released(change: ObjectChange) -> bool:
    return change.new is not None and not _gated(change.new) and (change.old is None or _gated(change.old))


def _released_count(mirror: Mirror, namespace: str) -> int:
    found = mirror.bucket(INSTANCES).items()
    return sum(1 for key, each in found if key.startswith(f"{namespace}/") and not _gated(each))


def _pods_used(mirror: Mirror, namespace: str) -> dict[str, Quantity]:
    zero = Quantity.parse(0)
    used = {"pods": zero, "cpu": zero, "memory": zero}
    for key, pod in mirror.bucket(PODS).items():
        if key.startswith(f"{namespace}/") and not is_terminal(pod):
            used["pods"] += Quantity.parse(1)
            for name, amount in requests(pod).items():
                if name in used:
                    used[name] += amount
    return used | {f"requests.{name}": used[name] for name in ("cpu", "memory")}


def _class_name(place: Place) -> str:
    return f"class {'/'.join(place)}"


def _class_limits(spec: JsonObject, used: Iterable[str]) -> dict[str, str]:
    """Return the limits of a quota for the classes in use; 0 for classes that it does not list."""
    limits: dict[str, str] = {}
    for listed in spec.get("containerClassResources") or ():
        limits |= {name: "0" for name in used if name.startswith(f"class {listed['name']}/")}
        for each in listed["classes"]:
            limits[_class_name((listed["name"], each["name"]))] = str(each.get("capacity", 1 << 30))
    return limits


def _classes_used(objects: Mapping[str, JsonObject], namespace: str, new: JsonObject) -> dict[str, Quantity]:
    """Count the uses of the classes that the new object requests. Other classes may exceed a quota that was lowered."""
    asked, found = _asked(new), Counter[Place]()
    for key, each in objects.items():
        if asked and key.startswith(f"{namespace}/") and not is_terminal(each):
            found.update({place: count for place, count in _asked(each).items() if place in asked})
    return {_class_name(place): Quantity.parse(count) for place, count in found.items()}


def _asked(obj: JsonObject) -> Places:
    """Return the classes requested by a Pod, or by an Instance for its Pod (sandbox containers, or one machine)."""
    runtime = obj["spec"].get("runtime")
    if runtime is None:
        return places(obj)
    return places(
        {"metadata": obj["metadata"], "spec": runtime.get("sandbox") or {"containers": [{"name": "machine"}]}}
    )


def requests(pod: JsonObject) -> dict[str, Quantity]:
    """Return the requests of a pod: the sum of its containers, and the runtime overhead."""
    total = {name: Quantity.parse(amount) for name, amount in (pod["spec"].get("overhead") or {}).items()}
    for container in pod["spec"]["containers"]:
        for name, amount in ((container.get("resources") or {}).get("requests") or {}).items():
            total[name] = total.get(name, Quantity.parse(0)) + Quantity.parse(amount)
    return total


class RevisionsGrow:
    """Revisions, generations and observed generations never decrease, and no future generation is observed."""

    name = "revisions-monotone"

    def __init__(self) -> None:
        self._newest = 0

    def look(self, mirror: Mirror, change: ObjectChange) -> Iterator[str]:
        """Compare with the previous state."""
        if change.new is None:
            return
        metadata, status = change.new["metadata"], change.new.get("status") or {}
        revision = int(metadata["resourceVersion"])
        if revision <= self._newest:
            yield f"{change.key} has revision {revision} after {self._newest}"
        self._newest = max(self._newest, revision)
        seen = status.get("observedGeneration") or 0
        if seen > (metadata.get("generation") or inf):
            yield f"{change.key} was observed at generation {seen} of {metadata.get('generation')}"
        old = change.old
        if old is None or old["metadata"]["uid"] != metadata["uid"]:
            return
        if (metadata.get("generation") or 0) < (old["metadata"].get("generation") or 0):
            yield f"the generation of {change.key} goes back"
        if seen < ((old.get("status") or {}).get("observedGeneration") or 0):
            yield f"the observed generation of {change.key} goes back"


class BoundOnce:
    """A pod gets one node, for good, and no node exceeds its allocatable resources."""

    name = "bound-once"

    def look(self, mirror: Mirror, change: ObjectChange) -> Iterator[str]:
        """Check each binding."""
        if change.bucket != PODS or change.new is None or change.old is None:
            return
        before, node = change.old["spec"].get("nodeName"), change.new["spec"].get("nodeName")
        if before == node:
            return
        if before:
            yield f"{change.key} moves from {before} to {node}"
        found = mirror.bucket(NODES).get(node)
        if found is None:
            return
        pods = [pod for pod in mirror.bucket(PODS).values() if pod["spec"].get("nodeName") == node]
        there = [pod for pod in pods if not is_terminal(pod)]
        for name, used in _committed(there).items():
            offered = found["status"]["allocatable"].get(name, "0")
            if used > Quantity.parse(offered):
                yield f"{change.key} makes {name} on {node} {used} of {offered}"
        yield from (f"{change.key} makes {what}" for what in _overfull(node, found, there))


def _committed(pods: Iterable[JsonObject]) -> dict[str, Quantity]:
    total: dict[str, Quantity] = {"pods": Quantity.parse(0)}
    for pod in pods:
        total["pods"] += Quantity.parse(1)
        for name, amount in requests(pod).items():
            total[name] = total.get(name, Quantity.parse(0)) + amount
    return total


def _overfull(name: str, node: JsonObject, pods: Iterable[JsonObject]) -> Iterator[str]:
    """Yield exclusive CPUs and classes of which more are used than offered."""
    offered = offered_classes(node)
    taken, own = Counter[Place](), 0
    for pod in pods:
        taken.update(places(pod, offered.pod))
        own += exclusive_peak(pod["spec"])
    most = (node["status"].get("capacity") or {}).get(CPU_EXCLUSIVE)
    if most is not None and own > int(most):
        yield f"{CPU_EXCLUSIVE} on {name} {own} of {most}"
    for (kind, each), count in taken.items():
        known = offered.find(kind)
        capacity = known.classes.get(each, 0) if known is not None else 0
        if capacity is not None and count > capacity:
            yield f"class {kind}/{each} on {name} {count} of {capacity}"


class NeverRefused:
    """No node rejects a pod that the scheduler bound to it."""

    name = "never-refused"

    def __init__(self) -> None:
        self._bound: set[str] = set()  # uids of pods created without a node and bound later

    def look(self, mirror: Mirror, change: ObjectChange) -> Iterator[str]:
        """Record bindings; check each pod that fails without having run."""
        if change.bucket != PODS or change.new is None or change.old is None:
            return
        uid, node = change.new["metadata"]["uid"], change.new["spec"].get("nodeName")
        if node and not change.old["spec"].get("nodeName"):
            self._bound.add(uid)
        before, status = change.old.get("status") or {}, change.new.get("status") or {}
        if before.get("phase") != "Failed" and uid in self._bound and _was_refused(status):
            yield f"{node} refuses {change.key}: {status.get('reason')}: {status.get('message')}"


def _was_refused(status: JsonObject) -> bool:
    return status.get("phase") == "Failed" and str(status.get("message")).startswith(REJECTED)


class MachinesEndBeforeTheyStartAgain:
    """A virtual machine restarts only after it has ended, and its Pod reports that end. An agent's stop is no end."""

    name = "machine-restarts"

    def look(self, mirror: Mirror, change: ObjectChange) -> Iterator[str]:
        """Check each restart."""
        if change.bucket != PODS or change.new is None or change.old is None:
            return
        if change.new["spec"].get("runtimeClassName") != MACHINE_CLASS:
            return
        before = {each["name"]: each for each in (change.old.get("status") or {}).get("containerStatuses") or ()}
        for each in (change.new.get("status") or {}).get("containerStatuses") or ():
            known = before.get(each["name"]) or each
            ended = (each.get("lastState") or {}).get("terminated")
            if each["restartCount"] > known["restartCount"] and (ended is None or ended == _end_of(known)):
                yield f"{change.key} starts again (restart {each['restartCount']}) and nothing has ended"


def _end_of(status: JsonObject) -> JsonObject | None:
    """Return the end that was reported before the present start of a running container.

    None for a waiting container: its reported end is the one before its next start.
    """
    running = "running" in (status.get("state") or {})
    return (status.get("lastState") or {}).get("terminated") if running else None


class LeasesAreTrusted:
    """A node is declared silent only after its lease has expired, by the monotonic clock."""

    name = "leases-trusted"

    def __init__(self) -> None:
        self._renewed: dict[str, tuple[float, float]] = {}  # time and duration of the last renewal
        self._late: dict[str, float] = {}  # time at which an expired lease was renewed

    def look(self, mirror: Mirror, change: ObjectChange) -> Iterator[str]:
        """Record renewals; check each node that becomes Unknown."""
        if change.bucket == LEASES and change.key.startswith(_LEASE_NAMESPACE) and change.new is not None:
            spec = change.new["spec"]
            if change.old is None or change.old["spec"].get("renewTime") != spec.get("renewTime"):
                name = change.key.removeprefix(_LEASE_NAMESPACE)
                before, duration = self._renewed.get(name, (change.time, inf))
                if change.time - before >= duration:
                    self._late[name] = change.time
                self._renewed[name] = (change.time, float(spec["leaseDurationSeconds"]))
        elif change.bucket == NODES and _ready(change.new) == "Unknown" and _ready(change.old) not in ("Unknown", ""):
            renewed, duration = self._renewed.get(change.key, (-inf, 0.0))
            age = change.time - renewed
            just_back = change.time - self._late.get(change.key, -inf) <= ON_ITS_WAY
            if age < duration and not just_back:
                yield f"{change.key} is called silent {age:.1f} s after a renewal for {duration:.0f} s"


def _ready(node: JsonObject | None) -> str:
    return condition_of(node, "Ready").get("status", "")
