"""Classes of block I/O: the format of their file, and the resulting kernel parameters."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tarmac.decide.qosclasses.blockio import BlockioParameters, oci, parameters, read_classes
from tarmac.decide.qosclasses.iofiles import (
    io_max_changes,
    rate_changes,
    read_io_max,
    read_rates,
    read_weights,
    unified_weight,
    weight_changes,
)

VDA, VDB = (254, 0), (254, 16)
DISKS = {"/dev/vd*": [VDA, VDB], "/dev/vdb": [VDB], "/dev/none*": []}

FILE = """
Classes:
  slow:
  - Weight: 20
  - Devices: [/dev/vd*]
    ThrottleReadBps: 50M
    ThrottleWriteBps: 1Mi
    ThrottleReadIOPS: 1k
    Weight: "400"
  - Devices: [/dev/vdb]
    throttlewriteiops: 10
    ThrottleReadBps: 0
  absent:
  - Devices: [/dev/none*]
    ThrottleReadBps: 1M
"""


def found(text: str) -> dict[str, BlockioParameters]:
    classes, findings = read_classes(yaml.safe_load(text))
    assert findings == []
    return {name: parameters(entries, DISKS.__getitem__) for name, entries in classes.items()}


def test_a_later_entry_replaces_what_an_earlier_one_said_of_a_disk() -> None:
    classes = found(FILE)
    assert classes["slow"] == BlockioParameters(
        20,
        {VDA: 400, VDB: 400},
        {
            "ReadBps": {VDA: 50_000_000},
            "WriteBps": {VDA: 1 << 20, VDB: 1 << 20},
            "ReadIOPS": {VDA: 1000, VDB: 1000},
            "WriteIOPS": {VDB: 10},
        },
    )


def test_a_class_whose_disks_are_not_there_comes_to_nothing() -> None:
    assert not found(FILE)["absent"]


def test_the_same_in_an_oci_specification() -> None:
    told = oci(found(FILE)["slow"])
    assert told["weight"] == 20
    assert told["weightDevice"] == [
        {"major": 254, "minor": 0, "weight": 400},
        {"major": 254, "minor": 16, "weight": 400},
    ]
    assert told["throttleWriteIOPSDevice"] == [{"major": 254, "minor": 16, "rate": 10}]
    assert set(told) == {
        "weight",
        "weightDevice",
        "throttleReadBpsDevice",
        "throttleWriteBpsDevice",
        "throttleReadIOPSDevice",
        "throttleWriteIOPSDevice",
    }


@pytest.mark.parametrize(
    ("document", "finding"),
    [
        ([], "not a mapping"),
        ({"Clases": {}}, "Clases: there is no such field; write Classes"),
        ({"Classes": []}, "Classes: not a mapping"),
        ({"Classes": {"a/b": []}}, "Classes.a/b: a name has 1 to 63"),
        ({"Classes": {"x": {}}}, "Classes.x: not a list of entries"),
        ({"Classes": {"x": ["y"]}}, "Classes.x[0]: not a mapping"),
        (
            {"Classes": {"x": [{"Wieght": 3}]}},
            "Classes.x[0].Wieght: there is no such field; write one of Devices, Weight",
        ),
        ({"Classes": {"x": [{"Weight": 5}]}}, "Classes.x[0].Weight: 5 is not between 10 and 1000"),
        ({"Classes": {"x": [{"Weight": True}]}}, "Classes.x[0].Weight: True"),
        ({"Classes": {"x": [{"ThrottleReadBps": "1M"}]}}, "Classes.x[0].ThrottleReadBps: needs Devices"),
        ({"Classes": {"x": [{"Devices": "/dev/vda"}]}}, "Classes.x[0].Devices: not a list"),
        ({"Classes": {"x": [{"Devices": ["vda"]}]}}, "Classes.x[0].Devices: 'vda' is not an absolute path"),
        ({"Classes": {"x": [{"Devices": ["/d"], "ThrottleReadBps": "fast"}]}}, "Classes.x[0].ThrottleReadBps: 'fast'"),
        ({"Classes": {"x": [{"Devices": ["/d"], "ThrottleReadBps": -1}]}}, "is not between 0, for no limit, and"),
    ],
)
def test_invalid_classes_are_named_with_their_field(document: Any, finding: str) -> None:
    _, findings = read_classes(document)
    assert len(findings) == 1
    assert finding in findings[0]


def test_one_bad_class_leaves_the_others() -> None:
    classes, findings = read_classes({"Classes": {"good": [{"Weight": 10}], "bad": [{"Weight": 1}]}})
    assert set(classes) == {"good"}
    assert len(findings) == 1


def test_version_1_is_told_one_disk_at_a_time_and_only_what_differs() -> None:
    now = read_rates("254:0 1048576\n254:16 5\n8:0 9\n")
    assert now == {VDA: 1048576, VDB: 5, (8, 0): 9}
    assert rate_changes(now, {VDA: 1048576, VDB: 7}) == ["8:0 0", "254:16 7"]
    assert rate_changes({}, {}) == []


def test_version_2_is_told_everything_about_a_disk_at_once() -> None:
    now = read_io_max("254:0 rbps=1048576 wbps=max riops=max wiops=20\n8:0 rbps=max wbps=9 riops=max wiops=max\n")
    assert now == {"ReadBps": {VDA: 1048576}, "WriteIOPS": {VDA: 20}, "WriteBps": {(8, 0): 9}}
    assert io_max_changes(now, {"ReadBps": {VDA: 1048576}, "WriteIOPS": {VDA: 30}}) == [
        "254:0 rbps=1048576 wbps=max riops=max wiops=30",
        "8:0 rbps=max wbps=max riops=max wiops=max",
    ]
    assert io_max_changes(now, now) == []


def test_weights_as_both_versions_write_them() -> None:
    assert read_weights("100\n") == (100, {})
    assert read_weights("default 100\n254:0 300\n") == (100, {VDA: 300})
    assert weight_changes({VDA: 300}, {VDB: 20}) == ["254:0 default", "254:16 20"]
    assert [unified_weight(each) for each in (10, 505, 1000)] == [1, 5000, 10000]
