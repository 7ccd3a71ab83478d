"""Rules of a world without faults: each gets a world that breaks it, and one that does not."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tarmac.api.compute.names import LABEL_CITY_CODE, LABEL_DEPLOYMENT_UID, LABEL_WORKLOAD_UID
from tarmac.api.schema import JsonObject
from tarmac.sim.bugs import LogTap
from tarmac.sim.checker.convergence import lies, orphans, unmet
from tarmac.sim.checker.replay import DEPLOYMENTS, INSTANCES, PODS, WORKLOADS, Mirror
from tarmac.sim.checker.safety import safety
from tarmac.sim.nodes.fleet import SimulatedNodes
from tarmac.sim.users import Wish
from tests.sim import test_egress_rules, test_simulated_public_addresses, test_the_checker

IMAGE = "docker.io/example/app:1"


def wish() -> Wish:
    return Wish("web", ["DFW"], [], 1, "OrderedReady", {})


def conditions(**said: str) -> list[JsonObject]:
    reasons = {"Progressing": "Complete"}
    return [{"type": kind, "status": status, "reason": reasons.get(kind, "X")} for kind, status in said.items()]


def counted(number: int, **said: str) -> JsonObject:
    numbers = {"replicas": number, "readyReplicas": number, "desiredReplicas": number}
    return {**numbers, "observedGeneration": 1, "conditions": conditions(**said)}


class Quiet:
    """A world at rest: one workload in one city with one instance, without an error."""

    def __init__(self) -> None:
        self.mirror = Mirror()
        self.running = [SimpleNamespace(uid="p", key="default/web-0", node="dfw-0", runs=True)]
        scale, owned = {"scaleSettings": {"minReplicas": 1}}, {LABEL_WORKLOAD_UID: "w", LABEL_DEPLOYMENT_UID: "d"}
        self.workload = self._put(WORKLOADS, "web", "w", counted(1, Available="True", Progressing="True"), {})
        city = {LABEL_WORKLOAD_UID: "w", LABEL_CITY_CODE: "DFW"}
        self.deployment = self._put(DEPLOYMENTS, "web-dfw", "d", counted(1), city, scale)
        self.instance = self._put(INSTANCES, "web-0", "i", {"conditions": conditions(Ready="True")}, owned)
        self.pod = self._put(PODS, "web-0", "p", {"conditions": conditions(Ready="True")}, owned)
        self.pod["spec"] = {"containers": [{"image": IMAGE}]}
        self.pod["metadata"]["ownerReferences"] = [{"kind": "Instance", "name": "web-0", "uid": "i"}]

    def _put(
        self, bucket: str, name: str, uid: str, status: JsonObject, labels: JsonObject, spec: JsonObject | None = None
    ) -> JsonObject:
        metadata = {"name": name, "uid": uid, "generation": 1, "labels": labels}
        made: JsonObject = {"metadata": metadata, "spec": spec or {}, "status": status}
        self.mirror.bucket(bucket)[f"default/{name}"] = made
        return made

    def forget(self, bucket: str, name: str) -> None:
        del self.mirror.bucket(bucket)[f"default/{name}"]

    def unmet(self, *wishes: Wish) -> list[str]:
        return list(unmet(self.mirror, wishes or (wish(),), {}))

    def lies(self) -> list[str]:
        return list(lies(self.mirror, cast("SimulatedNodes", SimpleNamespace(pods=lambda: self.running))))


def test_a_world_at_rest_lacks_nothing_and_tells_no_lie() -> None:
    quiet = Quiet()
    assert (quiet.unmet(), quiet.lies(), list(orphans(quiet.mirror))) == ([], [], [])


def test_a_machine_that_is_stopped_has_no_pod_and_is_not_ready() -> None:
    quiet = Quiet()
    quiet.instance["spec"] = {"runtime": {"virtualMachine": {"running": False}}}
    assert "web-0: Ready is True (X: None)" in quiet.unmet(), "it shall be stopped, and runs"
    _not_ready(quiet)
    assert any("has 1 instances and 1 pods" in each for each in quiet.unmet())
    quiet.forget(PODS, "web-0")
    quiet.running.clear()
    assert "deployment default/web-dfw says stoppedReplicas 0, and it is 1" in quiet.lies()
    for each in (quiet.workload, quiet.deployment):
        each["status"] |= {"readyReplicas": 0, "stoppedReplicas": 1}
    assert (quiet.unmet(), quiet.lies()) == ([], [])


def _without(bucket: str, name: str) -> Callable[[Quiet], None]:
    return lambda quiet: quiet.forget(bucket, name)


def _elsewhere(quiet: Quiet) -> None:
    quiet.deployment["metadata"]["labels"][LABEL_CITY_CODE] = "SEA"


def _one_more(quiet: Quiet) -> None:
    quiet.deployment["spec"]["scaleSettings"]["minReplicas"] = 2


def _not_ready(quiet: Quiet) -> None:
    quiet.instance["status"]["conditions"] = conditions(Ready="False")


def _outdated(quiet: Quiet) -> None:
    quiet.pod["spec"]["containers"][0]["image"] = "docker.io/example/app:0"


def _unavailable(quiet: Quiet) -> None:
    quiet.workload["status"]["conditions"] = conditions(Available="False", Progressing="True")


def _still_rolling(quiet: Quiet) -> None:
    quiet.workload["status"]["conditions"][1]["reason"] = "Updating"


def _of_nobody(quiet: Quiet) -> None:
    quiet.pod["metadata"]["labels"][LABEL_DEPLOYMENT_UID] = "gone"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (_without(WORKLOADS, "web"), "workload default/web is missing"),
        (_without(DEPLOYMENTS, "web-dfw"), "web is in [], not in ['DFW']"),
        (_without(INSTANCES, "web-0"), "web-dfw has 0 instances and 1 pods, not 1: Progressing is None (None: None)"),
        (_without(PODS, "web-0"), "web-dfw has 1 instances and 0 pods, not 1: Progressing is None (None: None)"),
        (_elsewhere, "web is in ['SEA'], not in ['DFW']"),
        (_one_more, "web-dfw wants 2, not 1"),
        (_not_ready, "web-0: Ready is False (X: None)"),
        (_outdated, f"web-0 runs docker.io/example/app:0, not {IMAGE}"),
        (_unavailable, "web: Available is False (X: None)"),
        (_still_rolling, "web: Progressing is True (Updating: None)"),
        (_of_nobody, f"{PODS} default/web-0 has no owner"),
    ],
)
def test_wanted_workloads_that_are_missing_are_violations(change: Callable[[Quiet], None], told: str) -> None:
    quiet = Quiet()
    change(quiet)
    assert told in quiet.unmet()


def test_unwanted_workloads_are_violations() -> None:
    assert list(unmet(Quiet().mirror, (), {})) == ["workload default/web is still there"]


def _stopped(quiet: Quiet) -> None:
    quiet.running[0].runs = False


def _unknown_process(quiet: Quiet) -> None:
    quiet.running.append(SimpleNamespace(uid="x", key="default/old", node="sea-0", runs=True))


def _miscounted(field: str, value: Any) -> Callable[[Quiet], None]:
    return lambda quiet: quiet.deployment["status"].update({field: value})


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (_stopped, "pod default/web-0: Ready is True (X: None), but its processes do not"),
        (_unknown_process, "default/old runs on sea-0 without a Pod in the API"),
        (_without(PODS, "web-0"), "instance default/web-0: Ready is True (X: None), but its pod says otherwise"),
        (_miscounted("replicas", 2), "deployment default/web-dfw says replicas 2, and it is 1"),
        (_miscounted("readyReplicas", 0), "deployment default/web-dfw says readyReplicas 0, and it is 1"),
        (_one_more, "workload default/web says desiredReplicas 1, and it is 2"),
        (_miscounted("observedGeneration", 0), "deployment default/web-dfw is at generation 1, observed 0"),
    ],
)
def test_status_that_is_not_the_truth(change: Callable[[Quiet], None], told: str) -> None:
    quiet = Quiet()
    change(quiet)
    assert told in quiet.lies()


def test_every_rule_of_safety_is_broken_by_a_test() -> None:
    modules = (test_the_checker, test_egress_rules, test_simulated_public_addresses)
    source = "".join(map(inspect.getsource, modules))
    assert [rule.name for rule in safety() if f'"{rule.name}"' not in source] == []


@pytest.mark.parametrize(
    ("line", "bugs"),
    [
        ('{"message": "reconcile failed", "controller": "workload", "key": "a/b", "error": "KeyError(1)"}', 1),
        ('{"message": "request failed", "path": "/api", "traceback": "boom"}', 1),
        ('{"message": "reconcile failed", "controller": "workload", "error": "Disconnected(cut)"}', 0),
        ('{"message": "something else", "error": "KeyError(1)"}', 0),
    ],
)
def test_an_error_that_no_fault_explains_is_a_bug_and_told_once(line: str, bugs: int) -> None:
    tap = LogTap()
    for _ in range(2):
        assert tap.write(line) == len(line)
    assert len(tap.bugs) == bugs
