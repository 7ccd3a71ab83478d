"""Hostile requests: each takes at most 50 ms of the event loop, and most are rejected.

All these once took seconds, or check code next to such code. A tenant with all rights sends them through the whole
server, so that no check of rights rejects them early.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest

from tarmac.server.security.users import User
from tests.cost.bases import BASES
from tests.cost.measuring import ALLOWED, Reply, Server, at_best, serving

pytestmark = [pytest.mark.timeout(600)]

MIB = 1024 * 1024
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
SECRETS = "/api/v1/namespaces/default/secrets"
PODS = "/api/v1/namespaces/default/pods"
ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles"
WORKLOADS = "/apis/compute.datumapis.com/v1alpha/namespaces/default/workloads"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
RBAC = "rbac.authorization.k8s.io"
YAML = "application/yaml"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
OWNER = User("owner", groups=("system:authenticated",))  # of the namespace: may write roles, within the owner's rights
ANYBODY = User("anybody", groups=("system:authenticated",))


def config_map(name: str = "a", **more: Any) -> dict[str, Any]:
    metadata = {"name": name, **more.pop("metadata", {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **more}


def pod(name: str = "a", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


def workload(**placement: Any) -> dict[str, Any]:
    header = {"apiVersion": "compute.datumapis.com/v1alpha", "kind": "Workload", "metadata": {"name": "a"}}
    template = BASES["workloads"]["spec"]["template"]
    placed = {"name": "p", "scaleSettings": {"minReplicas": 1}, **placement}
    return {**header, "spec": {"template": template, "placements": [placed]}}


def names(count: int, prefix: str = "k") -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


class Attack(NamedTuple):
    """A request, and the status it gets."""

    status: int
    method: str
    path: str
    body: Any = b""
    kind: str = "application/json"
    query: str = ""
    more: Mapping[str, Any] = MappingProxyType({})


CUBE = {"verbs": names(100, "v"), "apiGroups": names(100, "g"), "resources": names(100, "r")}
BIG, LONG = f"{CONFIG_MAPS}/big", f"{CONFIG_MAPS}/long"
LARGEST = dict.fromkeys(names(7900), "v")
ALIASES = "\n".join(
    ["a0: &a0 [x, x, x, x, x, x, x, x, x]", *[f"a{n}: &a{n} [{f'*a{n - 1}, ' * 9}]" for n in range(1, 9)]]
)

ATTACKS: dict[str, Attack] = {
    "a cube of rights": Attack(403, "POST", ROLES, {"metadata": {"name": "a"}, "rules": [CUBE]}, more={"user": OWNER}),
    "many rules": Attack(
        413,
        "POST",
        ROLES,
        {"metadata": {"name": "a"}, "rules": [{"verbs": ["x"], "apiGroups": [""], "resources": ["x"]}] * 5500},
    ),
    "YAML of anybody": Attack(413, "POST", REVIEWS, b"- a\n" * (3 * MIB // 4), YAML, more={"user": ANYBODY}),
    "YAML of a megabyte": Attack(413, "POST", REVIEWS, b"- a\n" * (MIB // 4), YAML, more={"user": ANYBODY}),
    "YAML in brackets": Attack(413, "POST", REVIEWS, b"[" * 499 + b"a," * 50_000, YAML),
    "YAML of aliases": Attack(413, "POST", REVIEWS, ALIASES.encode(), YAML),
    "YAML of directives": Attack(400, "POST", REVIEWS, b"".join(b"%%TAG !%d! x\n" % n for n in range(50_000)), YAML),
    "YAML in a delete": Attack(413, "DELETE", BIG, b"- a\n" * (MIB // 4), YAML),
    "YAML in an apply": Attack(413, "PATCH", BIG, b"- a\n" * (MIB // 4), APPLY_PATCH, "fieldManager=m"),
    "JSON of empty objects": Attack(413, "POST", CONFIG_MAPS, b"[" + b"{}," * (MIB - 2) + b"{}]"),
    "JSON of empty strings": Attack(413, "POST", CONFIG_MAPS, b"[" + b'"",' * (MIB - 2) + b'""]'),
    "JSON with a key often": Attack(
        201,
        "POST",
        CONFIG_MAPS,
        b'{"metadata":{"name":"a"},"data":{' + b",".join(b'"a":"b"' for _ in range(19_000)) + b"}}",
    ),
    "JSON with an object often": Attack(
        413, "POST", CONFIG_MAPS, b"{" + b",".join(b'"data":{"k%d":1}' % n for n in range(9000)) + b"}"
    ),
    "a duration of a million parts": Attack(
        422, "POST", WORKLOADS, workload(cityCodes=["DFW"], onCityLoss={"after": "1h" * 1_400_000})
    ),
    "a duration of millions of digits": Attack(
        422, "POST", WORKLOADS, workload(cityCodes=["DFW"], onCityLoss={"after": "1" * 2_800_000 + "s"})
    ),
    "a time to rest of a million parts": Attack(
        422,
        "POST",
        "/apis/submariner.io/v1alpha1/sourceipclasses",
        {
            "apiVersion": "submariner.io/v1alpha1",
            "kind": "SourceIPClass",
            "metadata": {"name": "a"},
            "spec": {"ranges": [{"cidr": "192.0.2.0/24"}], "holdDown": "1h" * 1_400_000},
        },
    ),
    "a range of megabytes": Attack(
        422,
        "POST",
        "/apis/submariner.io/v1alpha1/sourceipclasses",
        {
            "apiVersion": "submariner.io/v1alpha1",
            "kind": "SourceIPClass",
            "metadata": {"name": "a"},
            "spec": {"ranges": [{"cidr": "1." * 1_400_000}]},
        },
    ),
    "an amount of millions of digits": Attack(
        400,
        "POST",
        PODS,
        pod(containers=[{"name": "c", "image": "i", "resources": {"limits": {"cpu": "1" * 2_800_000}}}]),
    ),
    "JSON that does not end": Attack(400, "POST", CONFIG_MAPS, b'{"data":{"a":"' + b"\\n" * (MIB - 10)),
    "protobuf of small fields": Attack(
        400, "POST", CONFIG_MAPS, b"k8s\x00" + b"\x10\x01" * (MIB - 10), "application/vnd.kubernetes.protobuf"
    ),
    "protobuf of small messages": Attack(
        413,
        "POST",
        CONFIG_MAPS,
        b"k8s\x00\x12\x80\x80\x40" + b"\x12\x00" * (MIB // 2),
        "application/vnd.kubernetes.protobuf",
    ),
    "unknown fields": Attack(201, "POST", CONFIG_MAPS, {"metadata": {"name": "a"}, **dict.fromkeys(names(19_000), 1)}),
    "200,000 finalizers": Attack(413, "POST", CONFIG_MAPS, config_map(metadata={"finalizers": ["e.x/f"] * 200_000})),
    "19,000 finalizers": Attack(422, "POST", CONFIG_MAPS, config_map(metadata={"finalizers": names(19_000, "e.x/f")})),
    "many owners": Attack(
        422,
        "POST",
        CONFIG_MAPS,
        config_map(
            metadata={
                "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "u", "controller": True}]
                * 3000
            }
        ),
    ),
    "many labels": Attack(422, "POST", CONFIG_MAPS, config_map(metadata={"labels": dict.fromkeys(names(8000), "")})),
    "a long name": Attack(422, "POST", CONFIG_MAPS, config_map("a." * (MIB + MIB // 3))),
    "a long label": Attack(422, "POST", CONFIG_MAPS, config_map(metadata={"labels": {"a" * MIB: "b" * MIB}})),
    "a long image": Attack(201, "POST", PODS, pod(containers=[{"name": "c", "image": "a/" * (MIB // 2)}])),
    "a long variable": Attack(
        413, "POST", PODS, pod(containers=[{"name": "c", "image": "i", "env": [{"name": "A" * MIB}]}])
    ),
    "a long quantity": Attack(
        400, "POST", PODS, pod(containers=[{"name": "c", "image": "i", "resources": {"limits": {"cpu": "9" * MIB}}}])
    ),
    "many quantities": Attack(
        413,
        "POST",
        PODS,
        pod(containers=[{"name": "c", "image": "i", "resources": {"limits": dict.fromkeys(names(5000, "e.x/"), "1")}}]),
    ),
    "9,000 spread constraints": Attack(
        413,
        "POST",
        PODS,
        pod(
            topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "x", "whenUnsatisfiable": "DoNotSchedule"}] * 9000
        ),
    ),
    "4,000 spread constraints": Attack(
        422,
        "POST",
        PODS,
        pod(
            topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "x", "whenUnsatisfiable": "DoNotSchedule"}] * 4000
        ),
    ),
    "50,000 cities": Attack(413, "POST", WORKLOADS, workload(cityCodes=["DFW"] * 50_000)),
    "19,000 cities": Attack(422, "POST", WORKLOADS, workload(cityCodes=["DFW"] * 19_000)),
    "7,900 cities": Attack(422, "POST", WORKLOADS, workload(cityCodes=["DFW"] * 7900)),
    "loops in CEL": Attack(
        422,
        "POST",
        WORKLOADS,
        workload(selector={"constraint": "[[1,1,1,1,1,1,1]]" + ".map(x,x+x+x+x+x+x+x+x+x+x)" * 6 + "==[[1]]"}),
    ),
    "interfaces to be named": Attack(
        422,
        "POST",
        WORKLOADS,
        {
            **workload(cityCodes=["DFW"]),
            "spec": {
                "placements": [],
                "template": {
                    "spec": {"networkInterfaces": [*[{}] * 4500, *[{"name": f"eth{n}"} for n in range(4500)]]}
                },
            },
        },
    ),
    "a patch that replaces all": Attack(200, "PATCH", BIG, {"data": dict.fromkeys(LARGEST, "m")}, MERGE_PATCH),
    "a strategic patch of all": Attack(200, "PATCH", BIG, {"data": dict.fromkeys(LARGEST, "s")}, STRATEGIC_PATCH),
    "an apply of all": Attack(
        200, "PATCH", BIG, config_map("big", data=dict.fromkeys(LARGEST, "a")), APPLY_PATCH, "fieldManager=m&force=true"
    ),
    "an apply that conflicts everywhere": Attack(
        409, "PATCH", BIG, config_map("big", data=dict.fromkeys(LARGEST, "c")), APPLY_PATCH, "fieldManager=other"
    ),
    "an apply of many finalizers": Attack(
        422,
        "PATCH",
        LONG,
        config_map("long", metadata={"finalizers": names(19_000, "e.x/g")}),
        APPLY_PATCH,
        "fieldManager=m&force=true",
    ),
    "copies that double": Attack(
        422,
        "PATCH",
        BIG,
        [{"op": "add", "path": "/x", "value": {}}]
        + [{"op": "copy", "from": "/x", "path": f"/x/{n % 2}"} for n in range(100)],
        JSON_PATCH,
    ),
    "copies of much": Attack(
        422, "PATCH", BIG, [{"op": "copy", "from": "/data", "path": "/data/c"}] * 3900, JSON_PATCH
    ),
    "copies of little": Attack(
        413, "PATCH", BIG, [{"op": "copy", "from": "/data/k1", "path": f"/data/c{n}"} for n in range(3900)], JSON_PATCH
    ),
    "insertions in front": Attack(
        422, "PATCH", LONG, [{"op": "add", "path": "/metadata/finalizers/0", "value": "e.x/a"}] * 3900, JSON_PATCH
    ),
    "a long path": Attack(422, "PATCH", BIG, [{"op": "add", "path": "/a" * MIB, "value": "a"}], JSON_PATCH),
    "a long index": Attack(
        422, "PATCH", LONG, [{"op": "add", "path": "/metadata/finalizers/" + "9" * MIB, "value": "a"}], JSON_PATCH
    ),
    "many operations": Attack(413, "PATCH", BIG, [{"op": "test", "path": "/metadata"}] * 200_000, JSON_PATCH),
    "many managers": Attack(
        422, "POST", CONFIG_MAPS, config_map(metadata={"managedFields": [{"manager": name} for name in names(5000)]})
    ),
    "a managed field of much": Attack(
        201,
        "POST",
        CONFIG_MAPS,
        config_map(
            metadata={
                "managedFields": [
                    {
                        "manager": "m",
                        "operation": "Apply",
                        "apiVersion": "v1",
                        "fieldsType": "FieldsV1",
                        "fieldsV1": {"f:metadata": {"f:finalizers": {f'v:"{name}"': {} for name in names(9000)}}},
                    }
                ]
            }
        ),
    ),
    "a selector of much": Attack(
        400, "GET", CONFIG_MAPS, query="labelSelector=" + quote(",".join(f"!{name}" for name in names(8000)))
    ),
    "a selector of many values": Attack(
        200, "GET", CONFIG_MAPS, query="labelSelector=" + quote(f"k in ({','.join(names(8000))})")
    ),
    "a field selector of much": Attack(
        400,
        "GET",
        CONFIG_MAPS,
        query="fieldSelector=" + quote(",".join(f"metadata.name!={name}" for name in names(2500))),
    ),
    "many parameters": Attack(200, "GET", CONFIG_MAPS, query="&".join(f"{name}=x" for name in names(8000))),
    "a long continue token": Attack(400, "GET", CONFIG_MAPS, query="limit=1&continue=" + "A" * 60_000),
    "many accepted types": Attack(406, "GET", CONFIG_MAPS, more={"headers": {"accept": ",".join(["a/b;q=1"] * 8000)}}),
    "an answer in YAML": Attack(200, "GET", BIG, more={"headers": {"accept": "application/yaml"}}),
    "an answer as a table": Attack(
        200, "GET", CONFIG_MAPS, more={"headers": {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}}
    ),
    "many groups in a review": Attack(
        201,
        "POST",
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        {"spec": {"user": "x", "groups": names(19_000), "resourceAttributes": {"verb": "get", "resource": "pods"}}},
    ),
}

LEGITIMATE: dict[str, Attack] = {
    "a ConfigMap of a mebibyte of JSON": Attack(
        201, "POST", CONFIG_MAPS, config_map(data={"a": '{"x":[1,2],"y":{}},' * 50_000})
    ),
    "a Secret of a mebibyte": Attack(
        201, "POST", SECRETS, {"metadata": {"name": "a"}, "stringData": {"a": "x" * (MIB - 10)}}
    ),
    "5,000 keys": Attack(201, "POST", CONFIG_MAPS, config_map(data=dict.fromkeys(names(5000), "x"))),
    "1,000 endpoints": Attack(
        201,
        "POST",
        "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
        {
            "metadata": {"name": "a"},
            "addressType": "IPv4",
            "ports": [{"name": "http", "port": 80}],
            "endpoints": [
                {
                    "addresses": [f"10.0.{n // 250}.{n % 250}"],
                    "conditions": {"ready": True, "serving": True, "terminating": False},
                    "nodeName": "node",
                    "zone": "zone",
                    "targetRef": {"kind": "Pod", "namespace": "default", "name": f"p{n}", "uid": f"u{n}"},
                }
                for n in range(1000)
            ],
        },
    ),
    "100 containers": Attack(
        201,
        "POST",
        PODS,
        pod(
            containers=[
                {"name": f"c{n}", "image": "i", "env": [{"name": f"E{e}", "value": "x"} for e in range(20)]}
                for n in range(100)
            ]
        ),
    ),
    "400 rules": Attack(
        201,
        "POST",
        ROLES,
        {
            "metadata": {"name": "a"},
            "rules": [
                {"verbs": ["get", "list", "watch"], "apiGroups": ["", "apps"], "resources": ["pods", f"r{n}"]}
                for n in range(400)
            ],
        },
    ),
    "a manifest of 100 KiB in YAML": Attack(
        201,
        "POST",
        CONFIG_MAPS,
        b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n"
        + b"".join(b"  k%d: some text of a few words\n" % n for n in range(3000)),
        YAML,
    ),
}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncGenerator[Server]:
    async with serving(tmp_path) as server:
        assert (await server.send("POST", CONFIG_MAPS, config_map("big", data=LARGEST))).status == 201
        reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "admin"}
        subject = {"apiGroup": RBAC, "kind": "User", "name": OWNER.name}
        owning = {"metadata": {"name": "owner"}, "roleRef": reference, "subjects": [subject]}
        assert (await server.send("POST", ROLES.replace("roles", "rolebindings"), owning)).status == 201
        finalizers = names(1000, "e.x/f")
        long = config_map("long", metadata={"finalizers": finalizers})
        assert (await server.send("POST", CONFIG_MAPS, long)).status == 201
        yield server


async def _try(server: Server, attack: Attack) -> Reply:
    """Send it, and delete the created object, so that it can be repeated."""
    reply = await server.send(*attack[1:6], **attack.more)
    if attack.method == "POST" and reply.status == 201:
        await server.send("DELETE", f"{attack.path}/a", {"gracePeriodSeconds": 0})
    return reply


@pytest.mark.parametrize("requests", [ATTACKS, LEGITIMATE], ids=["attacks", "large but legitimate"])
async def test_no_request_keeps_others_waiting(requests: dict[str, Attack], server: Server) -> None:
    failed: list[str] = []
    costs: list[tuple[float, str]] = []
    for name, attack in requests.items():
        replies: list[Reply] = []

        async def once(attack: Attack = attack, replies: list[Reply] = replies) -> float:
            replies.append(await _try(server, attack))
            return replies[-1].seconds

        best = await at_best(once)
        costs.append((best * 1000, name))
        wrong = [reply for reply in replies if reply.status != attack.status]
        if wrong:
            failed.append(f"{name}: {wrong[0].status} {wrong[0].body[:300]!r}")
        elif best > ALLOWED:
            failed.append(f"{name}: {best * 1000:.0f} ms")
    costs.sort(reverse=True)
    print("", *[f"{cost:6.1f} ms  {name}" for cost, name in costs[:12]], sep="\n")
    assert not failed, "\n".join(failed)
