"""Revisions in a status of a foreign writer."""

from __future__ import annotations

import base64
import tracemalloc
import zlib
from collections.abc import Callable

import pytest

from tarmac.api.compute.workload import Workload
from tarmac.api.declare import decode
from tarmac.api.schema import JsonObject
from tarmac.api.shared import ObjectMeta
from tarmac.decide.rollout.stored import MAX_TEMPLATE_BYTES, history_of, template_in, unpacked

RUNTIME = {"resources": {"instanceType": "datumcloud/d1-standard-2"}}
TEMPLATE: JsonObject = {"spec": {"runtime": RUNTIME, "networkInterfaces": []}}


def workload(template: str) -> Workload:
    record = {"number": 1, "templateHash": "h", "created": "2026-11-15T12:00:00Z", "template": template}
    spec = {"template": TEMPLATE, "placements": []}
    return decode(Workload, {"metadata": {"name": "web"}, "spec": spec, "status": {"revisions": [record]}})


@pytest.mark.parametrize(
    "template",
    [
        lambda: base64.b64encode(zlib.compress(b" " * (100 * MAX_TEMPLATE_BYTES), 9)).decode(),
        lambda: base64.b64encode(zlib.compress(b"{}")[:-3]).decode(),
        lambda: "no base64",
        lambda: "é",
    ],
    ids=["a bomb", "cut off", "nonsense", "not even ASCII"],
)
def test_unreadable_revisions_unpack_to_nothing_with_bounded_memory(template: Callable[[], str]) -> None:
    made = workload(template())
    assert made.status is not None
    assert len(made.status.revisions) == 1
    tracemalloc.start()
    try:
        assert unpacked(history_of(made)[0]) is None
        assert tracemalloc.get_traced_memory()[1] < 5 * MAX_TEMPLATE_BYTES
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("owner", "data"),
    [
        ("u2", {"spec": {"template": TEMPLATE}}),
        ("u1", None),
        ("u1", {"spec": 3}),
        ("u1", {"spec": {"template": {"spec": 1}}}),
    ],
    ids=["another's", "nothing", "nonsense", "no template"],
)
def test_a_controller_revision_that_is_not_ours_or_cannot_be_read_is_nothing(owner: str, data: JsonObject) -> None:
    found: JsonObject = {"metadata": {"name": "web-1", "ownerReferences": [{"uid": owner}]}, "data": data}
    assert template_in(found, ObjectMeta(name="web", uid="u1")) is None
