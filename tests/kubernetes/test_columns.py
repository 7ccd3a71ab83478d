"""The columns of `kubectl get`."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.api.kubernetes.columns import columns_for
from tarmac.api.resource import Age
from tarmac.base.clock import parse_rfc3339
from tarmac.base.duration import human_duration

NOW = parse_rfc3339("2026-11-15T12:00:00Z")
CREATED = "2026-11-15T11:00:00Z"


def shown(kind: str, obj: dict[str, Any], group: str = "") -> dict[str, Any]:
    obj = {**obj, "metadata": {"name": "x", "creationTimestamp": CREATED, **obj.get("metadata", {})}}
    return {column.name: told(column.value(obj)) for column in columns_for(group, kind)}


def told(cell: Any) -> Any:
    return cell.text % human_duration(NOW - parse_rfc3339(cell.since)) if isinstance(cell, Age) else cell


def status(name: str = "c", *, ready: bool = False, restarts: int = 0, **state: Any) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": name, "ready": ready, "restartCount": restarts, "state": state}
    if restarts:
        entry["lastState"] = {"terminated": {"finishedAt": "2026-11-15T11:55:00Z"}}
    return entry


ONE = {"containers": [{"name": "c"}]}
WITH_INIT = {**ONE, "initContainers": [{"name": "i"}, {"name": "j"}]}
RUNNING = status(ready=True, running={})


@pytest.mark.parametrize(
    ("spec", "state", "metadata", "ready", "word"),
    [
        (ONE, {"phase": "Pending"}, {}, "0/1", "Pending"),
        (ONE, {"phase": "Running", "containerStatuses": [RUNNING]}, {}, "1/1", "Running"),
        (
            ONE,
            {"phase": "Running", "containerStatuses": [status(waiting={"reason": "CrashLoopBackOff"})]},
            {},
            "0/1",
            "CrashLoopBackOff",
        ),
        (
            ONE,
            {"phase": "Failed", "containerStatuses": [status(terminated={"exitCode": 137})]},
            {},
            "0/1",
            "ExitCode:137",
        ),
        (
            ONE,
            {"phase": "Succeeded", "containerStatuses": [status(terminated={"exitCode": 0, "reason": "Completed"})]},
            {},
            "0/1",
            "Completed",
        ),
        (WITH_INIT, {"phase": "Pending", "initContainerStatuses": [status("i", running={})]}, {}, "0/1", "Init:0/2"),
        (
            WITH_INIT,
            {"phase": "Pending", "initContainerStatuses": [status("i", waiting={"reason": "ImagePullBackOff"})]},
            {},
            "0/1",
            "Init:ImagePullBackOff",
        ),
        (
            WITH_INIT,
            {"phase": "Pending", "initContainerStatuses": [status("i", terminated={"exitCode": 1, "signal": 9})]},
            {},
            "0/1",
            "Init:Signal:9",
        ),
        (ONE, {"phase": "Running"}, {"deletionTimestamp": CREATED}, "0/1", "Terminating"),
        (ONE, {"phase": "Running", "reason": "NodeLost"}, {"deletionTimestamp": CREATED}, "0/1", "Unknown"),
        (
            ONE,
            {"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]},
            {},
            "0/1",
            "SchedulingGated",
        ),
    ],
)
def test_the_status_of_a_pod(
    spec: dict[str, Any], state: dict[str, Any], metadata: dict[str, Any], ready: str, word: str
) -> None:
    row = shown("Pod", {"metadata": metadata, "spec": spec, "status": state})
    assert (row["Ready"], row["Status"]) == (ready, word)


def test_restarts_say_how_long_ago() -> None:
    pod = {"spec": ONE, "status": {"phase": "Running", "containerStatuses": [status(restarts=3, running={})]}}
    assert shown("Pod", pod)["Restarts"] == "3 (5m ago)"


def test_sidecars_count_as_containers() -> None:
    spec = {**ONE, "initContainers": [{"name": "s", "restartPolicy": "Always"}]}
    sidecar = {**status("s", ready=True, restarts=2, running={}), "started": True}
    state = {"phase": "Running", "initContainerStatuses": [sidecar], "containerStatuses": [RUNNING]}
    row = shown("Pod", {"spec": spec, "status": state})
    assert (row["Ready"], row["Restarts"]) == ("2/2", "2 (5m ago)")


def test_wide_columns_of_a_pod() -> None:
    row = shown("Pod", {"spec": {**ONE, "nodeName": "n"}, "status": {"podIPs": [{"ip": "10.0.0.1"}]}})
    assert row == row | {"Age": "60m", "IP": "10.0.0.1", "Node": "n", "Nominated Node": "<none>"}
    assert [column.name for column in columns_for("", "Pod") if column.priority] == [
        "IP",
        "Node",
        "Nominated Node",
        "Readiness Gates",
    ]


def test_a_node() -> None:
    node = {
        "metadata": {"labels": {"node-role.kubernetes.io/worker": ""}},
        "spec": {"unschedulable": True},
        "status": {
            "conditions": [{"type": "Ready", "status": "False"}],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            "nodeInfo": {"kubeletVersion": "v1.35.8"},
        },
    }
    row = shown("Node", node)
    assert row == row | {
        "Status": "NotReady,SchedulingDisabled",
        "Roles": "worker",
        "Version": "v1.35.8",
        "Internal-IP": "10.0.0.1",
        "External-IP": "<none>",
    }


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (
            {"type": "ClusterIP", "clusterIPs": ["10.96.0.1"], "ports": [{"port": 443, "protocol": "TCP"}]},
            ("10.96.0.1", "<none>", "443/TCP"),
        ),
        ({"type": "ExternalName", "externalName": "example.com"}, ("<none>", "example.com", "<none>")),
        (
            {
                "type": "LoadBalancer",
                "clusterIPs": ["10.96.0.2"],
                "ports": [{"port": 80, "nodePort": 31000, "protocol": "TCP"}],
            },
            ("10.96.0.2", "<pending>", "80:31000/TCP"),
        ),
    ],
)
def test_a_service(spec: dict[str, Any], expected: tuple[str, str, str]) -> None:
    row = shown("Service", {"spec": spec})
    assert (row["Cluster-IP"], row["External-IP"], row["Port(s)"]) == expected


def test_an_event() -> None:
    event = {
        "involvedObject": {"kind": "Pod", "name": "p"},
        "source": {"component": "kubelet", "host": "n"},
        "message": " started ",
        "firstTimestamp": CREATED,
        "lastTimestamp": "2026-11-15T11:59:30Z",
    }
    row = shown("Event", event)
    assert row == row | {
        "Last Seen": "30s",
        "First Seen": "60m",
        "Object": "pod/p",
        "Source": "kubelet, n",
        "Message": "started",
        "Count": 1,
    }


def test_an_event_reads_the_same_in_its_newer_form() -> None:
    event = {
        "regarding": {"kind": "Pod", "name": "p"},
        "reportingController": "kubelet",
        "reportingInstance": "n",
        "note": "started",
        "eventTime": CREATED,
        "series": {"count": 4, "lastObservedTime": "2026-11-15T11:59:30.000000Z"},
    }
    row = shown("Event", event, "events.k8s.io")
    assert row == row | {
        "Last Seen": "30s",
        "Object": "pod/p",
        "Source": "kubelet, n",
        "Message": "started",
        "Count": 4,
    }


def test_long_lists_are_cut_short() -> None:
    endpoints = [{"addresses": [f"10.0.0.{n}"]} for n in range(1, 6)]
    row = shown("EndpointSlice", {"addressType": "IPv4", "endpoints": endpoints}, "discovery.k8s.io")
    assert (row["Ports"], row["Endpoints"]) == ("<unset>", "10.0.0.1,10.0.0.2,10.0.0.3 + 2 more...")


def test_a_quota_shows_what_is_used() -> None:
    amounts = {"hard": {"limits.cpu": "2", "pods": "10"}, "used": {"limits.cpu": "1", "pods": "3"}}
    row = shown("ResourceQuota", {"status": amounts})
    assert (row["Request"], row["Limit"]) == ("pods: 3/10", "limits.cpu: 1/2")


def test_a_signing_request_tells_how_far_it_is() -> None:
    status = {"conditions": [{"type": "Approved"}], "certificate": "eA=="}
    request = {"spec": {"username": "u", "expirationSeconds": 3600}, "status": status}
    row = shown("CertificateSigningRequest", request, "certificates.k8s.io")
    assert (row["Requestor"], row["RequestedDuration"], row["Condition"]) == ("u", "60m", "Approved,Issued")
