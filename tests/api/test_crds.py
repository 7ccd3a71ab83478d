"""The CRDs are complete, and a real API server takes them and the examples."""

from __future__ import annotations

import copy
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tarmac.api.catalog import build_catalog
from tarmac.api.crds import crd_documents
from tarmac.api.decode.bodies import check_object
from tarmac.api.status import Invalid, invalid
from tarmac.base.fielderrors import FieldErrors
from tests.api.checking import make, served
from tests.support.peer import Peer, running_peer

EXAMPLES = Path(__file__).parents[2] / "examples"
Document = dict[str, Any]


@pytest.fixture(scope="module")
def documents() -> list[Document]:
    return crd_documents(build_catalog())


def schema_of(documents: list[Document], name: str) -> Document:
    (document,) = [item for item in documents if item["metadata"]["name"] == name]
    return document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def at(schema: Document, *path: str) -> Document:
    for step in path:
        schema = schema["items"] if step == "[]" else schema["properties"][step]
    return schema


def nodes(schema: Document) -> Iterator[Document]:
    yield schema
    for child in [*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")]:
        if child:
            yield from nodes(child)


def test_every_own_kind_has_one(documents: list[Document]) -> None:
    assert len(documents) == 22
    without_status = [
        document["spec"]["names"]["kind"]
        for document in documents
        if "status" not in document["spec"]["versions"][0]["subresources"]
    ]
    assert without_status == ["LocalMachineImage"]


def test_lists_say_how_they_are_merged(documents: list[Document]) -> None:
    spec = at(schema_of(documents, "workloads.compute.datumapis.com"), "spec")
    template = at(spec, "template", "spec")
    keyed = [at(spec, "placements"), at(template, "volumes"), at(template, "runtime", "sandbox", "containers")]
    for node in keyed:
        assert (node["x-kubernetes-list-type"], node["x-kubernetes-list-map-keys"]) == ("map", ["name"])


def test_interfaces_may_be_nameless_so_their_list_is_taken_as_a_whole(documents: list[Document]) -> None:
    template = at(schema_of(documents, "workloads.compute.datumapis.com"), "spec", "template", "spec")
    assert at(template, "networkInterfaces")["x-kubernetes-list-type"] == "atomic"


def test_the_two_shorthands_let_unknown_shapes_through(documents: list[Document]) -> None:
    template = at(schema_of(documents, "workloads.compute.datumapis.com"), "spec", "template")
    network = at(template, "spec", "networkInterfaces", "[]", "network")
    assert template["x-kubernetes-preserve-unknown-fields"]
    assert network["x-kubernetes-preserve-unknown-fields"]
    assert "type" not in network


def test_every_field_is_documented(documents: list[Document]) -> None:
    for document in documents:
        root = document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        parts = {name: node for name, node in root["properties"].items() if name in ("spec", "status")}
        for node in nodes({"properties": parts}):
            for name, child in node.get("properties", {}).items():
                assert child.get("description"), f"{document['metadata']['name']}: {name}"


def test_the_deployment_can_be_scaled(documents: list[Document]) -> None:
    (document,) = [item for item in documents if item["spec"]["names"]["kind"] == "WorkloadDeployment"]
    scale = document["spec"]["versions"][0]["subresources"]["scale"]
    assert scale["specReplicasPath"] == ".spec.replicas"


class Real:
    """A few calls to a real API server."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._context = ssl.create_default_context(cadata=peer.ca)

    def call(self, method: str, path: str, body: Document | None = None) -> Document:
        headers = {"Authorization": f"Bearer {self._peer.token}", "Content-Type": "application/json"}
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self._peer.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, context=self._context, timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            return json.load(error)


def is_established(document: Document) -> bool:
    conditions = {item["type"]: item for item in document.get("status", {}).get("conditions") or []}
    assert conditions.get("NonStructuralSchema", {}).get("status") != "True", conditions["NonStructuralSchema"]
    assert conditions.get("NamesAccepted", {}).get("status", "True") == "True", conditions["NamesAccepted"]
    return conditions.get("Established", {}).get("status") == "True"


@pytest.fixture(scope="module")
def real(documents: list[Document]) -> Iterator[Real]:
    """A real API server that serves our CRDs."""
    with running_peer() as peer:
        server = Real(peer)
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        for document in documents:
            answer = server.call("POST", path, document)
            assert answer["kind"] == "CustomResourceDefinition", answer
        waiting = {document["metadata"]["name"] for document in documents}
        while waiting:
            waiting = {name for name in waiting if not is_established(server.call("GET", f"{path}/{name}"))}
        yield server


def created(real: Real, item: Document) -> Document:
    """Return the response to creating an object; a new kind's endpoints may need a moment to appear."""
    namespace = f"/namespaces/{item['metadata'].get('namespace', 'default')}"
    if item["apiVersion"] == "v1":  # of Kubernetes itself, beside ours in an example
        place = "" if item["kind"] == "Namespace" else namespace
        return real.call("POST", f"/api/v1{place}/{item['kind'].lower()}s", item)
    resource = served(item["kind"])
    namespace = namespace if resource.namespaced else ""
    path = f"/apis/{item['apiVersion']}{namespace}/{resource.plural}"
    while real.call("GET", path).get("code") == 404:
        pass
    return real.call("POST", f"{path}?fieldValidation=Strict", item)


@pytest.mark.peers
@pytest.mark.timeout(180)
def test_a_real_api_server_establishes_every_crd_and_takes_the_examples(real: Real) -> None:
    for number, example in enumerate(sorted(EXAMPLES.glob("*.yaml"))):
        for item in yaml.safe_load_all(example.read_text()):
            if item["kind"] != "Namespace":  # objects of other kinds are in several examples, under one name
                item["metadata"]["name"] += f"-{number}"
            answer = created(real, item)
            assert answer["kind"] == item["kind"], (example.name, answer)


def network(**spec: Any) -> Document:
    return make("Network", {"ipam": {"mode": "Auto"}, **spec})


COORDINATES = {"coordinates": {"latitude": "x", "longitude": "1"}}
CITY = {"topology.datum.net/city-code": "DFW"}
TWICE = [{"namespace": "a", "addresses": 1}, {"namespace": "a", "addresses": 2}]
SOURCE = {"service": {"name": "a"}, "sourceIP": "192.0.2.2"}
RANGES = [{"cidr": "192.0.2.0/28"}]


def external(**spec: Any) -> Document:
    return make("ExternalService", {"targetIP": "203.0.113.1", "sources": [SOURCE], "ports": [{"port": 1}], **spec})


REFUSED = [
    network(mtu=9000),
    network(mtu=10),
    network(mtu="large"),
    network(ipFamilies="IPv4"),
    network(ipFamilies=[]),
    network(ipFamilies=["IPv4", "IPv4"]),
    network(ipFamilies=["IPv4", "IPv6", "IPv4"]),
    network(ipFamilies=["IPv5"]),
    network(ipam={"mode": "Magic"}),
    make("Network", {}),
    {key: value for key, value in network().items() if key != "spec"},
    make("Location", {"locationClassName": "rented"}),
    make(
        "Location",
        {"locationClassName": "self-managed", "topology": CITY, "provider": {"nodes": {}}, **COORDINATES},
    ),
    make("NetworkBinding", {"network": {"name": ""}, "location": {"name": "a"}}),
    make("SourceIPClaim", {"className": "", "families": []}),
    make("SourceIPClass", {"ranges": [], "quota": {"overrides": TWICE}}),
    make("SourceIPClass", {"ranges": RANGES * 65}),
    make("SourceIPClass", {"ranges": RANGES, "sharing": "Everybody", "reclaimPolicy": "Recycle"}),
    make("SourceIPClass", {"ranges": RANGES, "announce": "shouting", "bindingMode": "Later"}),
    make("SourceIPClass", {"ranges": RANGES, "subnet": {"prefixLength": 0}, "inbound": {"policy": "Anybody"}}),
    make("SourceIPClass", {"ranges": RANGES, "limits": {"connections": 0}}),
    make("SourceIPClaim", {"className": "a", "families": ["IPv4", "IPv4"]}),
    make("SourceIPClaim", {"className": "a", "families": ["IPv4", "IPv6", "IPv5"]}),
    make("SourceIP", {"address": "", "className": ""}),
    make("ExternalService", {"targetIP": "", "sources": [], "ports": []}),
    external(sources=[{**SOURCE, "service": {"name": ""}}]),
    external(sources=[SOURCE] * 65),
    external(ports=[{"port": 1}] * 65),
    external(ports=[{"port": 0}]),
    external(ports=[{"port": 1, "protocol": "ICMP"}]),
]


def refused(item: Document) -> Document:
    """Return the Status with which our own validation rejects an object."""
    resource, obj = served(item["kind"]), copy.deepcopy(item)
    errors = FieldErrors()
    try:
        check_object(resource, obj)
    except Invalid as refusal:
        return refusal.status()
    resource.strategy.default(obj)
    resource.strategy.validate(obj, errors)
    return invalid(resource.group, resource.kind, obj["metadata"]["name"], errors).status()


@pytest.mark.peers
@pytest.mark.parametrize("item", REFUSED, ids=lambda item: json.dumps(item.get("spec")))
def test_bounds_are_refused_in_the_words_of_the_real_server(real: Real, item: Document) -> None:
    assert comparable(refused(item)) == comparable(created(real, item))


def comparable(status: Document) -> Document:
    """Return a Status without the order of its causes, which is random on the real server."""
    causes = sorted(status["details"]["causes"], key=lambda cause: (cause["field"], cause["message"]))
    return {**status, "message": sorted(status["message"]), "details": {**status["details"], "causes": causes}}
