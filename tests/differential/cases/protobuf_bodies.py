"""Bodies as Go clients send them."""

from __future__ import annotations

from tests.decode.wire import encode_body, field
from tests.differential.shared import (
    EVENTS,
    LEASES,
    MAPS,
    PODS,
    ROLES,
    SECRETS,
    SERVICES,
    WORKLOADS,
    config_map,
    meta,
    pod,
    role,
    service,
)
from tests.differential.steps import PROTOBUF, Json, Step, create, delete, feature, get, put

_LEASE = {
    "kind": "Lease",
    "metadata": meta("a"),
    "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000001Z"},
}
_SECRET = {"kind": "Secret", "metadata": meta("a"), "data": {"k": "dg=="}, "type": "Opaque"}
_EVENT = {
    "kind": "Event",
    "metadata": meta("a"),
    "reason": "R",
    "count": 3,
    "lastTimestamp": "2026-01-01T00:00:00Z",
}
_POD = pod(
    spec={
        "containers": [
            {
                "name": "m",
                "image": "x",
                "ports": [{"containerPort": 80}],
                "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
                "livenessProbe": {"httpGet": {"path": "/", "port": "http"}},
                "securityContext": {"runAsUser": 1000, "privileged": False},
            }
        ],
        "volumes": [{"name": "v", "emptyDir": {}}],
    }
)
_DELETE_OPTIONS = b"k8s\0" + field(1, field(1, b"v1") + field(2, b"DeleteOptions")) + field(2, field(5, b"All"))


def _sent(step: Step) -> Step:
    return step.sending(PROTOBUF)


def _create(path: str, body: Json, group: str = "") -> Step:
    return _sent(create(path, encode_body(body, group)))


CASES = feature(
    "protobuf bodies",
    a_config_map=_create(MAPS, config_map(data={"k": "v"}, labels={"x": "y"})),
    a_secret=_create(SECRETS, _SECRET),
    a_pod=_create(PODS, _POD),
    a_service=_create(SERVICES, service(spec={"ports": [{"name": "http", "port": 80, "targetPort": "web"}]})),
    a_role=_create(ROLES, role(), "rbac.authorization.k8s.io"),
    a_lease=_create(LEASES, _LEASE, "coordination.k8s.io"),
    an_event=_create(EVENTS, _EVENT),
    an_update=(
        create(MAPS, config_map()),
        _sent(put(f"{MAPS}/a", encode_body(config_map(data={"k": "v"})))),
        get(f"{MAPS}/a"),
    ),
    delete_options=(
        create(MAPS, config_map()),
        _sent(delete(f"{MAPS}/a", _DELETE_OPTIONS)),
        get(f"{MAPS}/a"),
    ),
    times_of_early_years=(
        _create(
            EVENTS, {**_EVENT, "lastTimestamp": "0999-12-31T23:59:59Z", "eventTime": "0042-01-01T00:00:00.000001Z"}
        ),
        get(f"{EVENTS}/a"),
    ),
    of_another_kind_than_the_path=_create(MAPS, _SECRET),
    with_a_mistake=_create(MAPS, config_map("Bad_Name")),
    that_is_none=_sent(create(MAPS, b"not protobuf")),
    cut_short=_sent(create(MAPS, encode_body(config_map(data={"k": "v" * 40}))[:-30])),
    answers_for_a_workload_are_json=get(WORKLOADS).accepting(f"{PROTOBUF},application/json"),
)
