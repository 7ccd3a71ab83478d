"""The fields of an Instance that decisions need, decoded from its bytes."""

from __future__ import annotations

from typing import Any

import msgspec

from tarmac.decide import reasons
from tarmac.decide.instances import NO_ORDINAL, InstanceView, read_instance


def stored(labels: dict[str, str], status: dict[str, Any] | None = None, **metadata: Any) -> bytes:
    """Return an Instance as the store holds it, with many unused fields."""
    spec = {"runtime": {"resources": {"instanceType": "d1"}}, "controller": {"templateHash": "a"}, "volumes": []}
    obj = {"metadata": {"name": "web-7", "uid": "u", "labels": labels, **metadata}, "spec": spec}
    return msgspec.json.encode({**obj, "status": status} if status else obj)


EIGHT = 1_800_000_000.0  # 2027-01-15T08:00:00Z
INDEX = {"compute.datumapis.com/instance-index": "7"}


def test_a_ready_instance() -> None:
    """With its conditions and its running template."""
    conditions = [
        {"type": "Programmed", "status": "True", "reason": "Programmed"},
        {"type": "Ready", "status": "True", "reason": "Running", "lastTransitionTime": "2027-01-15T08:00:00Z"},
    ]
    status = {"conditions": conditions, "controller": {"observedTemplateHash": "a"}}
    assert read_instance(stored(INDEX, status)) == InstanceView(
        "web-7", 7, "a", ready=True, programmed=True, observed_hash="a", reason=reasons.RUNNING, ready_since=EIGHT
    )


def test_an_instance_that_is_not_ready() -> None:
    """With the reason, and since when."""
    condition = {"type": "Ready", "status": "False", "reason": "Starting", "message": "Containers are starting."}
    view = read_instance(stored(INDEX, {"conditions": [{**condition, "lastTransitionTime": "2027-01-15T08:00:00Z"}]}))
    assert (view.ready, view.reason, view.message) == (False, reasons.STARTING, "Containers are starting.")
    assert view.since == 1_800_000_000.0


def test_an_instance_that_nobody_has_looked_at_yet() -> None:
    """Without a status it waits."""
    assert read_instance(stored(INDEX)) == InstanceView("web-7", 7, "a", reason=reasons.PENDING)


def test_an_instance_on_its_way_out() -> None:
    """It has a deletion timestamp."""
    assert read_instance(stored(INDEX, deletionTimestamp="2027-01-15T08:00:00Z")).deleting


def test_an_ordinal_is_a_label_and_never_a_guess() -> None:
    """Names are not parsed."""
    for labels in ({}, {"compute.datumapis.com/instance-index": "-1"}, {"compute.datumapis.com/instance-index": "x"}):
        assert read_instance(stored(labels)).ordinal == NO_ORDINAL
