"""Extension fields of the Node reach servers that keep them and, as annotations, servers that drop them."""

from __future__ import annotations

import json
from typing import Any

from tarmac.agent.node.reporter import annotation_changes, keeps_fields, without_own_fields
from tarmac.api.kubernetes.core.nodedevices import NO_DEVICES, NodeDevices, node_devices

RESERVED = [{"resource": "cpu", "for": "system", "amount": "2", "source": "file"}]
STATUS = {"capacity": {"cpu": "4"}, "reservations": RESERVED}
KEY = "node.tarmac/resources"


def node(status: dict[str, Any], annotation: str = "") -> dict[str, Any]:
    return {"metadata": {"annotations": {KEY: annotation}} if annotation else {}, "status": status}


def test_an_answer_tells_whether_fields_are_kept() -> None:
    assert keeps_fields(STATUS, node(STATUS)) is True
    assert keeps_fields(STATUS, node({"capacity": {"cpu": "4"}})) is False
    assert keeps_fields(without_own_fields(STATUS), node({})) is None


def test_until_it_is_known_the_annotation_stays() -> None:
    """A starting agent must not remove the annotation that schedulers use, even for a moment."""
    assert annotation_changes(STATUS, node({}, '{"reservations":[]}'), None, NO_DEVICES) == {}


def test_where_fields_are_dropped_the_annotation_says_the_same_once() -> None:
    change = annotation_changes(STATUS, node({}), False, NO_DEVICES)
    text = change["annotations"][KEY]
    assert json.loads(text) == {"reservations": RESERVED}
    assert annotation_changes(STATUS, node({}, text), False, NO_DEVICES) == {}
    assert annotation_changes({}, node({}, text), False, NO_DEVICES) == {"annotations": {KEY: None}}


def test_where_fields_are_kept_there_is_no_annotation() -> None:
    assert annotation_changes(STATUS, node(STATUS), True, NO_DEVICES) == {}
    assert annotation_changes(STATUS, node(STATUS, "{}"), True, NO_DEVICES) == {"annotations": {KEY: None}}


def test_device_resources_are_an_annotation_on_every_server() -> None:
    """No field says which resources are devices, and which handlers support them."""
    devices, key = NodeDevices(frozenset({"example.com/gpu"}), frozenset({"", "runc"})), "node.tarmac/devices"
    for keeps in (None, True, False):
        text = annotation_changes({}, node({}), keeps, devices)["annotations"][key]
        assert json.loads(text) == {"resources": ["example.com/gpu"], "handlers": ["", "runc"]}
        said = {"metadata": {"annotations": {key: text}}}
        assert node_devices(said) == devices
        assert annotation_changes({}, said, keeps, devices) == {}
        assert annotation_changes({}, said, keeps, NO_DEVICES) == {"annotations": {key: None}}
