"""Rules of containers: names, images, ports, environment, privileges."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.compute.making import GONE, C, Row, T, World, causes, identified, workload

CONTAINERS: list[Row] = [
    ("B1 no containers", {C: [], f"{T}.volumes": []}, [f"Required {C}"]),
    ("B2 no name", {f"{C}[1].name": ""}, [f"Required {C}[1].name"]),
    ("B2 bad name", {f"{C}[1].name": "Side_car"}, [f"Invalid {C}[1].name"]),
    ("B2 twice", {f"{C}[1].name": "app"}, [f"Duplicate {C}[1].name"]),
    (
        "B2 init containers share the names",
        {f"{T}.runtime.sandbox.initContainers": [{"name": "app", "image": "ghcr.io/a/b:1"}]},
        [f"Duplicate {T}.runtime.sandbox.initContainers[0].name"],
    ),
    ("B3 no image", {f"{C}[0].image": GONE}, [f"Required {C}[0].image"]),
    ("B4 no registry", {f"{C}[0].image": "mccutchen/go-httpbin"}, [f"Invalid {C}[0].image"]),
    ("B4 short name", {f"{C}[0].image": "nginx:1.27"}, [f"Invalid {C}[0].image"]),
    ("B4 bare host", {f"{C}[0].image": "ghcr.io"}, [f"Invalid {C}[0].image"]),
    ("B4 no reference", {f"{C}[0].image": "ghcr.io/a b"}, [f"Invalid {C}[0].image"]),
    ("B4 tag missing is legal", {f"{C}[0].image": "docker.io/netdata/netdata"}, []),
    ("B4 port and digest are legal", {f"{C}[0].image": f"localhost:5000/a/b@sha256:{'0' * 64}"}, []),
    (
        "B6 pull secret without a name",
        {f"{T}.runtime.sandbox.imagePullSecrets": [{"name": ""}]},
        [f"Required {T}.runtime.sandbox.imagePullSecrets[0].name"],
    ),
    ("B7 port without a name", {f"{C}[0].ports[0].name": GONE}, [f"Required {C}[0].ports[0].name"]),
    ("B7 bad port name", {f"{C}[0].ports[0].name": "a--b"}, [f"Invalid {C}[0].ports[0].name"]),
    (
        "B7 port names are unique in the instance",
        {f"{C}[1].ports": [{"name": "http", "port": 81}]},
        [f"Duplicate {C}[1].ports[0].name"],
    ),
    ("B8 port out of range", {f"{C}[0].ports[0].port": 65536}, [f"Invalid {C}[0].ports[0].port"]),
    (
        "port numbers are unique in the instance",
        {f"{C}[1].ports": [{"name": "other", "port": 80}]},
        [f"Duplicate {C}[1].ports[0].port"],
    ),
    ("the same port of another protocol", {f"{C}[1].ports": [{"name": "u", "port": 80, "protocol": "UDP"}]}, []),
    ("unknown protocol", {f"{C}[0].ports[0].protocol": "ICMP"}, [f"NotSupported {C}[0].ports[0].protocol"]),
    ("env without a name", {f"{C}[0].env": [{"value": "x"}]}, [f"Required {C}[0].env[0].name"]),
    ("env twice", {f"{C}[0].env": [{"name": "A"}, {"name": "A"}]}, [f"Duplicate {C}[0].env[1].name"]),
    ("env with =", {f"{C}[0].env": [{"name": "A=B"}]}, [f"Invalid {C}[0].env[0].name"]),
    (
        "env with two values",
        {f"{C}[0].env": [{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]},
        [f"Invalid {C}[0].env[0].valueFrom"],
    ),
    (
        "env from nothing, env from a key without a name",
        {
            f"{C}[0].env": [
                {"name": "A", "valueFrom": {}},
                {"name": "B", "valueFrom": {"secretKeyRef": {"key": "k"}}},
            ]
        },
        [f"Invalid {C}[0].env[0].valueFrom", f"Required {C}[0].env[1].valueFrom.secretKeyRef.name"],
    ),
    (
        "envFrom exactly one source, prefix a C identifier",
        {
            f"{C}[0].envFrom": [
                {"prefix": "1-"},
                {"configMapRef": {"name": "a"}, "secretRef": {"name": "b"}},
                {"secretRef": {"name": ""}},
            ]
        },
        [
            f"Invalid {C}[0].envFrom[0].prefix",
            f"Required {C}[0].envFrom[0]",
            f"Forbidden {C}[0].envFrom[1].secretRef",
            f"Required {C}[0].envFrom[2].secretRef.name",
        ],
    ),
    (
        "capabilities",
        {f"{C}[0].securityContext": {"capabilities": {"add": ["ALL", "CAP_NET_RAW"], "drop": ["ALL"]}}},
        [
            f"Forbidden {C}[0].securityContext.capabilities.add[0]",
            f"Invalid {C}[0].securityContext.capabilities.add[1]",
        ],
    ),
]

HTTP = {"httpGet": {"port": "http"}}
INIT = f"{T}.runtime.sandbox.initContainers"
GRACE = f"{T}.runtime.sandbox.terminationGracePeriodSeconds"
PROBES: list[Row] = [
    (
        "every kind of probe and hook, each with as little as it needs",
        {
            f"{C}[0].readinessProbe": HTTP,
            f"{C}[0].livenessProbe": {"tcpSocket": {"port": 80}},
            f"{C}[0].startupProbe": {"grpc": {"port": 80}},
            f"{C}[0].lifecycle": {"postStart": {"exec": {"command": ["true"]}}, "preStop": {"sleep": {"seconds": 30}}},
            f"{C}[0].imagePullPolicy": "Always",
            f"{C}[0].workingDir": "/srv",
            GRACE: 30,
        },
        [],
    ),
    ("a probe without a handler", {f"{C}[0].readinessProbe": {}}, [f"Required {C}[0].readinessProbe"]),
    (
        "a probe with two",
        {f"{C}[0].readinessProbe": {**HTTP, "exec": {"command": ["true"]}}},
        [f"Forbidden {C}[0].readinessProbe.httpGet"],
    ),
    (
        "a command that is none, a port out of range, a bad scheme and a bad header",
        {
            f"{C}[0].livenessProbe": {"exec": {}},
            f"{C}[0].readinessProbe": {"tcpSocket": {"port": 65536}},
            f"{C}[0].startupProbe": {"httpGet": {"port": "-", "scheme": "FTP", "httpHeaders": [{"name": "a b"}]}},
        },
        [
            f"Required {C}[0].livenessProbe.exec.command",
            f"Invalid {C}[0].readinessProbe.tcpSocket.port",
            f"Invalid {C}[0].startupProbe.httpGet.port",
            f"Invalid {C}[0].startupProbe.httpGet.port",
            f"NotSupported {C}[0].startupProbe.httpGet.scheme",
            f"Invalid {C}[0].startupProbe.httpGet.httpHeaders",
        ],
    ),
    (
        "numbers below zero, and those that only some probes have",
        {
            f"{C}[0].livenessProbe": {**HTTP, "periodSeconds": -1, "successThreshold": 2},
            f"{C}[0].readinessProbe": {**HTTP, "terminationGracePeriodSeconds": 5, "successThreshold": 2},
        },
        [
            f"Invalid {C}[0].livenessProbe.periodSeconds",
            f"Invalid {C}[0].livenessProbe.successThreshold",
            f"Invalid {C}[0].readinessProbe.terminationGracePeriodSeconds",
        ],
    ),
    (
        "another host than the instance",
        {
            f"{C}[0].livenessProbe": {"tcpSocket": {"port": 80, "host": "10.0.0.1"}},
            f"{C}[0].lifecycle": {"preStop": {"httpGet": {"port": 80, "host": "127.0.0.1"}}},
        },
        [
            f"Forbidden {C}[0].livenessProbe.tcpSocket.host",
            f"Forbidden {C}[0].lifecycle.preStop.httpGet.host",
        ],
    ),
    (
        "a hook that waits longer than there is time to end",
        {f"{C}[0].lifecycle": {"preStop": {"sleep": {"seconds": 31}}}},
        [f"Invalid {C}[0].lifecycle.preStop.sleep"],
    ),
    ("as long as there is", {f"{C}[0].lifecycle": {"preStop": {"sleep": {"seconds": 31}}}, GRACE: 31}, []),
    ("no time at all is legal, less is not", {GRACE: 0}, []),
    ("less than no time", {GRACE: -1}, [f"Invalid {GRACE}"]),
    ("an unknown pull policy", {f"{C}[0].imagePullPolicy": "Often"}, [f"NotSupported {C}[0].imagePullPolicy"]),
    (
        "an init container is neither probed nor has hooks",
        {INIT: [{"name": "first", "image": "ghcr.io/a/b:1", "readinessProbe": HTTP, "lifecycle": {}}]},
        [f"Forbidden {INIT}[0].lifecycle", f"Forbidden {INIT}[0].readinessProbe"],
    ),
]


@pytest.mark.parametrize(("edits", "expected"), identified([*CONTAINERS, *PROBES]))
def test_containers(edits: dict[str, Any], expected: list[str]) -> None:
    assert causes(workload(edits), lookup=World()) == expected
