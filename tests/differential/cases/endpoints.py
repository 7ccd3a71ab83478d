"""v1 Endpoints and EndpointSlices: deprecation on every verb, addresses in odd forms, and kubectl's columns."""

from __future__ import annotations

from typing import Any

from tests.differential.shared import CORE, TABLE, meta
from tests.differential.steps import MERGE_PATCH, Json, apply, create, delete, feature, get, patch, put, watch

_ENDPOINTS = f"{CORE}/endpoints"
_SLICES = "/apis/discovery.k8s.io/v1/namespaces/$ns/endpointslices"
_HTTP = {"name": "http", "port": 80}
_ODD = ("010.0.0.1", "::ffff:10.0.0.2", "2001:DB8::1", "2001:db8:0:0::2", "10.0.0.3")


def _endpoints(*addresses: str, name: str = "a", ports: Json = None, **metadata: Any) -> Json:
    subset = {"addresses": [{"ip": each} for each in addresses], "ports": ports or [_HTTP]}
    return {"apiVersion": "v1", "kind": "Endpoints", "metadata": meta(name, **metadata), "subsets": [subset]}


def _slice(kind: str, *addresses: str) -> Json:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": meta("a"),
        "addressType": kind,
        "endpoints": [{"addresses": [each]} for each in addresses],
        "ports": [_HTTP],
    }


CASES = feature(
    "endpoints",
    every_verb_is_deprecated=(
        create(_ENDPOINTS, _endpoints("192.0.2.1")).keep(rv="metadata.resourceVersion"),
        get(f"{_ENDPOINTS}/a"),
        get(_ENDPOINTS),
        get("/api/v1/endpoints?labelSelector=case=nobody"),
        watch(f"{_ENDPOINTS}?resourceVersion=$rv", put(f"{_ENDPOINTS}/a", _endpoints("192.0.2.2")), events=1),
        patch(MERGE_PATCH, f"{_ENDPOINTS}/a", {"metadata": {"labels": {"a": "b"}}}),
        apply(f"{_ENDPOINTS}/b", _endpoints("192.0.2.1", name="b")),
        get(f"{_ENDPOINTS}/nobody"),
        delete(f"{_ENDPOINTS}/a"),
        delete(_ENDPOINTS),
    ),
    odd_addresses_are_warned_of=create(_ENDPOINTS, _endpoints(*_ODD)),
    odd_addresses_are_warned_of_on_update=(
        create(_ENDPOINTS, _endpoints("192.0.2.1")),
        put(f"{_ENDPOINTS}/a", _endpoints(*_ODD)),
        put(f"{_ENDPOINTS}/a", _endpoints(*_ODD)),
    ),
    those_of_the_controller_are_not=create(
        _ENDPOINTS, _endpoints(*_ODD, labels={"endpoints.kubernetes.io/managed-by": "endpoint-controller"})
    ),
    special_addresses_in_disguise=create(
        _ENDPOINTS, _endpoints("::ffff:127.0.0.1", "0169.254.0.1", "::FFFF:0.0.0.0", "224.000.0.1", "FE80::1")
    ),
    not_ready_and_without_ports=create(
        _ENDPOINTS, {"metadata": meta("a"), "subsets": [{"notReadyAddresses": [{"ip": "010.0.0.1"}]}]}
    ),
    a_subset_of_nobody=create(_ENDPOINTS, {"metadata": meta("a"), "subsets": [{"ports": [_HTTP]}]}),
    as_a_table=(
        create(_ENDPOINTS, _endpoints("192.0.2.1", "192.0.2.2", ports=[_HTTP, {"name": "other", "port": 81}])),
        create(_ENDPOINTS, _endpoints("2001:db8::1", name="b")),
        create(_ENDPOINTS, {"metadata": meta("c"), "subsets": [{"notReadyAddresses": [{"ip": "192.0.2.1"}]}]}),
        get(_ENDPOINTS).accepting(TABLE),
    ),
    odd_addresses_of_a_slice=create(_SLICES, _slice("IPv4", "010.0.0.1", "10.0.0.2")),
    odd_addresses_of_a_slice_of_six=create(_SLICES, _slice("IPv6", "2001:DB8::1", "2001:db8::2")),
    an_address_of_the_other_family_in_disguise=create(_SLICES, _slice("IPv6", "::ffff:10.0.0.1")),
    the_same_family_in_disguise=create(_SLICES, _slice("IPv4", "::ffff:10.0.0.1")),
)
