"""Revisions in a status that somebody else wrote."""

from __future__ import annotations

import base64
import tracemalloc
import zlib

import pytest

from tarmac.api.compute.workload import Workload
from tarmac.api.declare import decode
from tarmac.decide.rollout.stored import LARGEST, history_of


def workload(template: str) -> Workload:
    record = {"number": 1, "templateHash": "h", "created": "2026-11-15T12:00:00Z", "template": template}
    runtime = {"resources": {"instanceType": "datumcloud/d1-standard-2"}}
    spec = {"template": {"spec": {"runtime": runtime, "networkInterfaces": []}}, "placements": []}
    return decode(Workload, {"metadata": {"name": "web"}, "spec": spec, "status": {"revisions": [record]}})


@pytest.mark.parametrize(
    "template",
    [
        base64.b64encode(zlib.compress(b" " * (100 * LARGEST), 9)).decode(),
        base64.b64encode(zlib.compress(b"{}")[:-3]).decode(),
        "no base64",
        "é",
    ],
    ids=["a bomb", "cut off", "nonsense", "not even ASCII"],
)
def test_what_cannot_be_read_is_left_out_at_no_cost(template: str) -> None:
    made = workload(template)
    assert made.status is not None
    assert len(made.status.revisions) == 1
    tracemalloc.start()
    try:
        assert history_of(made) == ()
        assert tracemalloc.get_traced_memory()[1] < 5 * LARGEST
    finally:
        tracemalloc.stop()
