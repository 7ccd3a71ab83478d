"""Discovery: groups, versions and resources, as kubectl and client libraries read them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tarmac.api.catalog import Catalog, build_catalog
from tarmac.api.discovery import Discovery


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return build_catalog()


@pytest.fixture(scope="module")
def discovery(catalog: Catalog) -> Discovery:
    return Discovery(catalog)


def _json(body: bytes | None) -> Any:
    assert body is not None
    return msgspec.json.decode(body)


def test_core_versions(discovery: Discovery) -> None:
    assert _json(discovery.core_versions("10.0.0.1:6443")) == {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "10.0.0.1:6443"}],
    }


def test_groups_come_in_the_order_of_kubernetes_and_ours_last(discovery: Discovery) -> None:
    names = [group["name"] for group in _json(discovery.groups())["groups"]]
    assert names.index("events.k8s.io") < names.index("policy") < names.index("rbac.authorization.k8s.io")
    assert names[-3:] == ["compute.datumapis.com", "networking.datumapis.com", "submariner.io"]
    assert "" not in names


def test_one_group(discovery: Discovery) -> None:
    version = {"groupVersion": "policy/v1", "version": "v1"}
    assert _json(discovery.group("policy")) == {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": "policy",
        "versions": [version],
        "preferredVersion": version,
    }
    assert discovery.group("internal.apiserver.k8s.io") is None
    assert discovery.group("") is None


def test_resources_of_the_core_group(discovery: Discovery) -> None:
    listed = _json(discovery.resources("", "v1"))
    assert {key: value for key, value in listed.items() if key != "resources"} == {
        "kind": "APIResourceList",
        "groupVersion": "v1",
    }
    rows = {row["name"]: row for row in listed["resources"]}
    assert rows["pods"] == {
        "name": "pods",
        "singularName": "pod",
        "namespaced": True,
        "kind": "Pod",
        "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        "shortNames": ["po"],
        "categories": ["all"],
        "storageVersionHash": "xPOwRZ+Yhw8=",  # as Kubernetes computes it
    }
    assert rows["pods/eviction"] == {
        "name": "pods/eviction",
        "singularName": "",
        "namespaced": True,
        "group": "policy",
        "version": "v1",
        "kind": "Eviction",
        "verbs": ["create"],
    }
    assert "deletecollection" not in rows["namespaces"]["verbs"]
    assert "componentstatuses" not in rows


def test_resources_of_another_group(discovery: Discovery) -> None:
    listed = _json(discovery.resources("compute.datumapis.com", "v1alpha"))
    assert listed["apiVersion"] == "v1"
    rows = {row["name"]: row for row in listed["resources"]}
    assert rows["workloads"]["categories"] == ["tarmac", "all"], "for kubectl get all"
    assert rows["workloads"]["kind"] == "Workload"
    assert {"workloads/status", "workloaddeployments/scale", "instances"} <= rows.keys()
    assert rows["workloaddeployments/scale"]["group"] == "autoscaling"
    assert discovery.resources("compute.datumapis.com", "v1") is None
    assert discovery.resources("internal.apiserver.k8s.io", "v1alpha1") is None


@pytest.mark.parametrize("version", ["v2", "v2beta1"])
def test_aggregated_discovery_names_everything(discovery: Discovery, catalog: Catalog, version: str) -> None:
    found: set[tuple[str, str, str]] = set()
    for core in (True, False):
        document = _json(discovery.aggregated(core, version).body)
        assert document["kind"] == "APIGroupDiscoveryList"
        assert document["apiVersion"] == f"apidiscovery.k8s.io/{version}"
        for group in document["items"]:
            name = group["metadata"].get("name", "")
            assert (name == "") is core
            found |= {
                (name, item["version"], row["resource"]) for item in group["versions"] for row in item["resources"]
            }
    assert found == {(resource.group, resource.version, resource.plural) for resource in catalog}


def test_aggregated_rows(discovery: Discovery) -> None:
    groups = {group["metadata"]["name"]: group for group in _json(discovery.aggregated(False, "v2").body)["items"]}
    (budget,) = groups["policy"]["versions"][0]["resources"]
    assert budget["responseKind"] == {"group": "", "version": "", "kind": "PodDisruptionBudget"}
    assert budget["scope"] == "Namespaced"
    assert budget["subresources"][0]["subresource"] == "status"
    rows = {row["resource"]: row for row in groups["compute.datumapis.com"]["versions"][0]["resources"]}
    assert rows["workloads"]["responseKind"]["group"] == "compute.datumapis.com"
    assert rows["instancetypes"]["scope"] == "Cluster"


def test_the_entity_tag_belongs_to_the_content(discovery: Discovery) -> None:
    first, again = discovery.aggregated(True, "v2"), discovery.aggregated(True, "v2")
    assert first.etag == again.etag
    assert first.etag != discovery.aggregated(False, "v2").etag


def test_every_resource_is_found_by_url_and_by_kind(catalog: Catalog) -> None:
    for resource in catalog:
        assert catalog.find(resource.group, resource.version, resource.plural) is resource
        assert catalog.find_kind(resource.group, resource.version, resource.kind) is resource
    assert catalog.find("internal.apiserver.k8s.io", "v1alpha1", "storageversions") is None
