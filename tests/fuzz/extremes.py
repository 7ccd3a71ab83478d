"""Every field of a kind, one at a time, with a value that no sensible client sends there.

The rest of the object is valid, so that defaults, admission, validation and storage get this value.
"""

from __future__ import annotations

import base64
import copy
import json
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject, Schema, Type

Path = tuple[str | int, ...]
_RAW = re.compile(rb'"\\u00ab(.*?)\\u00bb"')


def raw(text: str) -> str:
    """A number in its literal form, for those that Python would write differently. Only `encoded` understands it."""
    return f"«{text}»"


INTEGERS: list[Any] = [
    0, -1, 2**31 - 1, 2**31, -(2**31), 2**32, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64, 1.5,
    raw("1e400"), raw("-1e400"), raw("1e18"), raw("1E2"), raw("-0"), raw("0.1e1"), raw("9" * 1000), raw("NaN"),
    raw("Infinity"), raw("01"),
]  # fmt: skip
QUANTITIES: list[Any] = [
    "0", "-1", "9223372036854775807", "9223372036854775808", "9" * 1000, "9" * 5000, "1e1000", "1e1001", "1e-1000",
    "1e999999999", "-9e99", "9e999", "1n", "0.0000000001", "9Ei", "99999Ei", "NaN", "Inf", "1.", ".5", ".", "m", "+1",
    "1e", "1Ei5", "0x10", 2**64, 1.5, raw("1e400"), -1,
]  # fmt: skip
_DURATIONS = [
    "0", "-1s", "9223372036854775807ns", "9223372036854775808ns", "1e9s", "9" * 1000 + "h", "292y", "0.000000001ns",
    "1h1h1h", "s", ".s", "-", "NaN", "2562047h47m16.854775807s",
]  # fmt: skip
_TIMES = [
    "0000-00-00T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "10000-01-01T00:00:00Z",
    "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "2026-02-30T00:00:00Z", "2026-01-01T24:00:00Z",
    "2026-01-01T23:59:60Z", "1969-12-31T23:59:59Z", "2026-01-01T00:00:00." + "9" * 1000 + "Z", "now", "",
]  # fmt: skip
_STRINGS = ["", "\u0000\n", "9" * 1000, "-1", "é☃𐍈", "\ud800"]
_NUMBERS_AS_TEXT = [
    "65536",
    "-1",
    "9" * 1000,
    "101%",
    "-1%",
    "%",
    "9" * 1000 + "%",
    "1.5%",
    "",
    2**31,
    -(2**31) - 1,
    2**63,
]
WRONG: list[Any] = [None, True, -1.5, "x", [], [None], [[]], {}, {"": None}, {"a": {"b": []}}]


def extremes(schema: Schema) -> list[Any]:
    """Return the extreme values for a schema."""
    if schema.type in (Type.INTEGER, Type.NUMBER):
        return INTEGERS
    if schema.type is Type.QUANTITY:
        return QUANTITIES
    if schema.type in (Type.TIME, Type.MICRO_TIME):
        return list(_TIMES)
    if schema.type is Type.INT_OR_STRING:
        return list(_NUMBERS_AS_TEXT)
    if schema.type is Type.STRING:
        return [*_STRINGS, *(_DURATIONS if schema.go_type is None and not schema.enum else ())]
    return []


def places(schema: Schema, path: Path = (), above: tuple[int, ...] = ()) -> Iterator[tuple[Path, Schema]]:
    """Every node below `schema`. A type inside itself is followed once."""
    if above.count(id(schema)) > 1 or len(path) > 14:
        return
    above = (*above, id(schema))
    for name, field in schema.fields.items():
        yield (*path, name), field
        yield from places(field, (*path, name), above)
    if schema.items is not None:
        key: str | int = 0 if schema.type is Type.LIST else "memory"
        yield (*path, key), schema.items
        yield from places(schema.items, (*path, key), above)


def with_value(schema: Schema, base: JsonObject, path: Path, value: Any) -> JsonObject:
    """Return `base` with `value` at `path`; missing parents get valid values."""
    made = copy.deepcopy(base)
    at: Any = made
    for step, following in pairwise(path):
        schema = _below(schema, step)
        found = _at(at, step)
        if not isinstance(found, list if isinstance(following, int) else dict):
            found = right(schema)
            _put(at, step, found)
        at = found
    _put(at, path[-1], value)
    return made


def _at(holder: Any, step: str | int) -> Any:
    if isinstance(step, int):
        return holder[step] if step < len(holder) else None
    return holder.get(step)


def _put(holder: Any, step: str | int, value: Any) -> None:
    if isinstance(step, int):
        holder[step : step + 1] = [value]
    else:
        holder[step] = value


def _below(schema: Schema, step: str | int) -> Schema:
    below = schema.fields.get(step) if isinstance(step, str) and schema.fields else schema.items
    assert below is not None
    return below


_PLAIN: dict[Type, Any] = {
    Type.INTEGER: 1,
    Type.NUMBER: 1,
    Type.BOOLEAN: True,
    Type.QUANTITY: "1",
    Type.INT_OR_STRING: 1,
    Type.TIME: "2026-01-01T00:00:00Z",
    Type.MICRO_TIME: "2026-01-01T00:00:00.000000Z",
    Type.BYTES: "YQ==",
}


def right(schema: Schema) -> Any:
    """Return the smallest value that the schema accepts."""
    if schema.type is Type.OBJECT:
        return {name: right(schema.fields[name]) for name in schema.required}
    if schema.type is Type.LIST:
        return []
    if schema.type is Type.MAP:
        return {}
    if schema.enum:
        return schema.enum[0]
    return _PLAIN.get(schema.type, "a")


def encoded(value: Any) -> bytes:
    """Return the object as JSON, with the numbers of `raw`."""
    return _RAW.sub(rb"\1", json.dumps(value).encode())


_CONTAINER = {"name": "a", "image": "registry.example/a:1"}
_RULE = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
_ROLE_REF = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
_CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
_TEMPLATE = {
    "runtime": {
        "resources": {"instanceType": "datumcloud/d1-standard-2"},
        "sandbox": {"containers": [{"name": "a", "image": "registry.example/a:1"}]},
    },
    "networkInterfaces": [{"network": {"name": "default"}}],
}
_PLACEMENT = {"name": "a", "cityCodes": ["DFW"], "scaleSettings": {"minReplicas": 1}}
_EVENT = {
    "reportingController": "example.com/a",
    "reportingInstance": "a",
    "action": "a",
    "reason": "a",
    "type": "Normal",
    "eventTime": "2026-01-01T00:00:00.000000Z",
}

_PODS = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [_CONTAINER]}}
_REPLICATED = {"spec": {"selector": {"matchLabels": {"app": "a"}}, "template": _PODS}}
_JOB = {"spec": {"template": {"spec": {"containers": [_CONTAINER], "restartPolicy": "Never"}}}}
_BACKEND = {"service": {"name": "a", "port": {"number": 80}}}
_TARGET = {"type": "Utilization", "averageUtilization": 50}
_PEER = {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}
# kinds of one plural in several groups or versions
_OF_VERSIONS: dict[str, JsonObject] = {
    "networking.k8s.io/v1/networkpolicies": {
        "spec": {"podSelector": {}, "ingress": [{"from": [_PEER], "ports": [{"port": 80, "protocol": "TCP"}]}]}
    },
    "autoscaling/v1/horizontalpodautoscalers": {
        "metadata": {"name": "extreme-v1"},  # autoscaling/v2 stores it in the same place
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"},
            "maxReplicas": 3,
            "targetCPUUtilizationPercentage": 50,
        },
    },
}

BASES: dict[str, JsonObject] = {
    "cronjobs": {"spec": {"schedule": "0 * * * *", "jobTemplate": _JOB}},
    "daemonsets": _REPLICATED,
    "deployments": _REPLICATED,
    "horizontalpodautoscalers": {
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"},
            "maxReplicas": 3,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": _TARGET}}],
        }
    },
    "ingresses": {"spec": {"rules": [{"http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": _BACKEND}]}}]}},
    "ingressclasses": {"spec": {"controller": "example.com/a"}},
    "ipaddresses": {
        "metadata": {"name": "192.0.2.1"},
        "spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "a"}},
    },
    "servicecidrs": {"spec": {"cidrs": ["192.0.2.0/24"]}},
    "flowschemas": {"spec": {"priorityLevelConfiguration": {"name": "a"}, "matchingPrecedence": 100}},
    "prioritylevelconfigurations": {
        "spec": {"type": "Limited", "limited": {"nominalConcurrencyShares": 1, "limitResponse": {"type": "Reject"}}}
    },
    "resourceslices": {
        "spec": {
            "driver": "example.com",
            "nodeName": "a",
            "pool": {"name": "a", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "a"}],
        }
    },
    "jobs": _JOB,
    "replicasets": _REPLICATED,
    "replicationcontrollers": {"spec": {"selector": {"app": "a"}, "template": _PODS}},
    "podtemplates": {"template": _PODS},
    "statefulsets": _REPLICATED,
    "pods": {"spec": {"containers": [_CONTAINER]}},
    "services": {"spec": {"ports": [{"port": 80}]}},
    "limitranges": {"spec": {"limits": [{"type": "Container"}]}},
    "persistentvolumeclaims": {"spec": _CLAIM},
    "persistentvolumes": {
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/d"}}
    },
    "endpointslices": {"addressType": "IPv4", "endpoints": [{"addresses": ["192.0.2.1"]}]},
    "roles": {"rules": [_RULE]},
    "clusterroles": {"rules": [_RULE]},
    "rolebindings": {"roleRef": _ROLE_REF},
    "clusterrolebindings": {"roleRef": _ROLE_REF},
    "runtimeclasses": {"handler": "runc"},
    "csidrivers": {"spec": {"tokenRequests": [{"audience": "a"}]}},
    "csinodes": {"spec": {"drivers": [{"name": "example.com", "nodeID": "a", "topologyKeys": ["a"]}]}},
    "csistoragecapacities": {"storageClassName": "a", "capacity": "1Gi"},
    "volumeattachments": {
        "spec": {"attacher": "example.com", "nodeName": "a", "source": {"persistentVolumeName": "a"}}
    },
    "volumeattributesclasses": {"driverName": "example.com", "parameters": {"a": "b"}},
    "storageclasses": {"provisioner": "example.com/disks"},
    "workloads": {"spec": {"template": {"spec": _TEMPLATE}, "placements": [_PLACEMENT]}},
    "workloaddeployments": {
        "spec": {
            "workloadRef": {"name": "a", "uid": "a"},
            "placementName": "a",
            "cityCode": "DFW",
            "template": {"spec": _TEMPLATE},
            "scaleSettings": {"minReplicas": 1},
        }
    },
    "instancetypes": {"spec": {"resources": {"cpu": "1", "memory": "1Gi"}}},
    "localmachineimages": {
        "spec": {
            "size": "10Gi",
            "format": "raw",
            "source": {"url": "https://example.com/os"},
            "checksum": f"sha256:{0:064}",
        }
    },
    "machineimages": {"spec": {"size": "10Gi", "format": "raw"}},
    "locations": {
        "spec": {
            "locationClassName": "self-managed",
            "topology": {"topology.datum.net/city-code": "DFW"},
            "provider": {"simulated": {}},
        }
    },
    "externalservices": {
        "spec": {
            "targetIP": "192.0.2.1",
            "sources": [{"service": {"name": "a"}, "sourceIP": "192.0.2.9"}],
            "ports": [{"port": 80, "protocol": "TCP"}],
        }
    },
    "instances": {"spec": _TEMPLATE},
    "controllerrevisions": {"data": {"a": "b"}, "revision": 1},
    "sourceips": {"metadata": {"name": "192.0.2.9"}, "spec": {"address": "192.0.2.9", "className": "a"}},
    "sourceipclasses": {"spec": {"ranges": [{"cidr": "192.0.2.0/24"}]}},
    "addresspools": {"spec": {"ranges": [{"cidr": "203.0.113.0/24"}]}},
    "publicaddresses": {"metadata": {"name": "203.0.113.9"}, "spec": {"address": "203.0.113.9", "poolName": "a"}},
    "bgppeers": {"spec": {"address": "198.51.100.1", "asn": 65001, "localASN": 65000}},
    "subjectaccessreviews": {"spec": {"user": "a", "resourceAttributes": {"verb": "get", "resource": "pods"}}},
    "localsubjectaccessreviews": {
        "spec": {"user": "a", "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"}}
    },
    "selfsubjectaccessreviews": {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}},
    "selfsubjectrulesreviews": {"spec": {"namespace": "default"}},
    "bindings": {"target": {"kind": "Node", "name": "a"}},
    "certificatesigningrequests": {"spec": {"signerName": "example.com/a", "usages": ["client auth"]}},
    "tokenreviews": {"spec": {"token": "a.b.c"}},
}


def base_of(resource: Resource) -> JsonObject:
    """Return an object of the kind that is as valid as its schema and `BASES` can make it."""
    made: JsonObject = {**right(resource.schema), "metadata": {"name": "extreme"} if resource.stored else {}}
    known = _OF_VERSIONS.get(f"{resource.api_version}/{resource.plural}", BASES.get(resource.plural, {}))
    made |= copy.deepcopy(_EVENT if resource.group == "events.k8s.io" else known)
    if resource.kind == "CertificateSigningRequest":
        made["spec"]["request"] = base64.b64encode(signing_request()).decode()
    return {**made, "apiVersion": resource.api_version, "kind": resource.kind}


@cache
def signing_request() -> bytes:
    """A request for a certificate, in PEM."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a")])
    made = x509.CertificateSigningRequestBuilder().subject_name(name)
    return made.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256()).public_bytes(Encoding.PEM)
