"""A response is one JSON object with two maps of quantities, and no unknown keys."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tarmac.agent.sizing.providerconfig import EXEC_VERSION
from tarmac.agent.sizing.response import BadResponse, SizingResponse, decode, request
from tarmac.decide.allocatable.reservations import Reserved

HEAD = {"kind": "SizingProviderResponse", "apiVersion": EXEC_VERSION}


def response(**maps: Any) -> bytes:
    return json.dumps({**HEAD, **maps}).encode()


def read(body: bytes) -> SizingResponse:
    return decode(body, EXEC_VERSION, "provider x")


def refusal(body: bytes) -> str:
    with pytest.raises(BadResponse) as caught:
        read(body)
    return str(caught.value)


def test_the_request_is_one_line() -> None:
    assert request(EXEC_VERSION) == (
        b'{"kind":"SizingProviderRequest","apiVersion":"sizingprovider.kubelet.k8s.io/v1alpha1"}\n'
    )


def test_amounts_of_both_maps_are_read_and_know_their_provider() -> None:
    body = response(
        systemReserve={"memory": "1Gi"},
        kubeReserve={"cpu": "80m", "memory": "1843Mi", "ephemeral-storage": "1Gi", "pid": "100"},
    )
    by = "provider x"
    assert read(body + b"\n \n") == SizingResponse(
        {"memory": Reserved(1 << 30, by)},
        {
            "cpu": Reserved(80, by),
            "memory": Reserved(1843 << 20, by),
            "ephemeral-storage": Reserved(1 << 30, by),
            "pid": Reserved(100, by),
        },
    )


def test_processors_are_rounded_as_kubelets_round_them() -> None:
    found = read(response(kubeReserve={"cpu": "200.5m"}, systemReserve={"cpu": "200.4m"}))
    assert (found.kube["cpu"].amount, found.system["cpu"].amount) == (201, 200)


@pytest.mark.parametrize("maps", [{}, {"systemReserve": None, "kubeReserve": {}}])
def test_nothing_to_hold_back_is_an_answer(maps: dict[str, Any]) -> None:
    assert read(response(**maps)) == SizingResponse({}, {})


def test_zero_counts_as_said() -> None:
    assert read(response(kubeReserve={"cpu": "0"})).kube == {"cpu": Reserved(0, "provider x")}


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"", "stdout is empty"),
        (b" \n", "stdout is empty"),
        (b"\xff{}", "stdout is not UTF-8"),
        (b'{"kind":"\xff"}', "stdout is not UTF-8"),
        (b"secret", "stdout is not one JSON object"),
        (b"[]", "stdout is not one JSON object"),
        (b'{"kind":NaN}', "stdout is not one JSON object"),
        (b"\xef\xbb\xbf{}", "stdout is not one JSON object"),
        (response()[:-1], "stdout is not one JSON object"),
        (b'{"a":' * 5_000, "stdout is not one JSON object"),
        (b"[" + b"{}," * 100_000 + b"{}]", "stdout is not one JSON object with a handful of values"),
        (response() + b"{}", "stdout has more after the JSON object"),
        (response() + b"secret", "stdout has more after the JSON object"),
    ],
)
def test_a_response_that_is_not_one_object_is_refused_without_quoting_it(body: bytes, told: str) -> None:
    assert refusal(body) == told


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"apiVersion": "v2"}, f'the response\'s apiVersion is "v2", not "{EXEC_VERSION}"'),
        ({"apiVersion": None}, f'the response\'s apiVersion is null, not "{EXEC_VERSION}"'),
        ({"kind": "Pod"}, 'the response\'s kind is "Pod", not "SizingProviderResponse"'),
        ({"systemReserved": {}}, 'the response has an unknown field "systemReserved"; write systemReserve'),
        ({"kubeReserved": {}}, 'the response has an unknown field "kubeReserved"; write kubeReserve'),
        (
            {"SystemReserve": {}},
            'unknown field "SystemReserve"; there are apiVersion, kind, systemReserve, kubeReserve',
        ),
        ({"kubeReserve": []}, "kubeReserve: expected an object"),
        ({"kubeReserve": {"cpu": 1}}, 'kubeReserve: the quantity of "cpu" is not a text'),
        ({"kubeReserve": {"cpu": "x"}}, 'kubeReserve: failed to parse quantity "x" for "cpu" resource'),
        ({"systemReserve": {"cpu": "-1"}}, 'systemReserve: resource quantity for "cpu" cannot be negative: -1'),
        ({"systemReserve": {"x": "1"}}, 'systemReserve: cannot reserve "x" resource'),
        ({"kubeReserve": {"CPU": "1"}}, 'kubeReserve: cannot reserve "CPU" resource'),
        ({"kubeReserve": {"hugepages-2Mi": "1"}}, 'cannot reserve "hugepages-2Mi" resource'),
    ],
)
def test_an_invalid_field_of_a_response_is_named(change: dict[str, Any], told: str) -> None:
    assert told in refusal(response(**change))


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (response()[:-1] + b',"kind":"SizingProviderResponse"}', '"kind" twice'),
        (response()[:-1] + b',"kubeReserve":{"cpu":"1","cpu":"1"}}', '"cpu" in "kubeReserve" twice'),
        (response()[:-1] + b',"x":[{"a":1,"a":2}]}', '"a" in "x" twice'),
    ],
)
def test_a_key_that_is_there_twice_is_named(body: bytes, told: str) -> None:
    assert told in refusal(body)


def test_long_and_strange_texts_stay_on_one_short_line() -> None:
    for body in (
        response(apiVersion="\n" * 100_000),
        response(**{"x" * 100_000: 1}),
        response(kubeReserve={"\x1b[2J" * 100_000: "1"}),
        response(kubeReserve={"cpu": "\n" + "9" * 100_000}),
    ):
        assert len(refusal(body)) < 1000
        assert refusal(body).isprintable()
