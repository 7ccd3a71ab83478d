"""Amounts that no machine has are refused at once, with a short reason."""

from __future__ import annotations

import json
import time

import pytest

from tarmac.agent.sizing.providerconfig import EXEC_VERSION
from tarmac.agent.sizing.response import BadResponse, decode
from tests.support.loopwatch import LIMIT

RESOURCES = ("cpu", "memory", "ephemeral-storage", "pid")
REFUSED = ("NaN", "nan", "Infinity", "-inf", "-1", "-1n", "1e400", "0x10", "١", "1_000", "1 1", "", "--1")
HUGE = ("9" * 1000, "1e99999999999", "9" * 100_000, f"1{'0' * 60_000}Ei")


def answered(resource: str, quantity: str) -> int:
    body = {"kind": "SizingProviderResponse", "apiVersion": EXEC_VERSION, "kubeReserve": {resource: quantity}}
    return decode(json.dumps(body).encode(), EXEC_VERSION, "provider x").kube[resource].amount


@pytest.mark.parametrize("resource", RESOURCES)
@pytest.mark.parametrize("quantity", REFUSED)
def test_an_amount_that_is_no_number_or_negative_is_refused(resource: str, quantity: str) -> None:
    with pytest.raises(BadResponse):
        answered(resource, quantity)


@pytest.mark.parametrize("resource", RESOURCES)
@pytest.mark.parametrize("quantity", HUGE, ids=range(len(HUGE)))
def test_an_enormous_amount_is_refused_at_once(resource: str, quantity: str) -> None:
    begun = time.process_time()
    with pytest.raises(BadResponse) as caught:
        answered(resource, quantity)
    assert time.process_time() - begun < LIMIT
    assert len(str(caught.value)) < 1000
