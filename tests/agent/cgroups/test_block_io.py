"""Block I/O limits in the kernel's files of cgroup version 1, and of version 2 on a FAKE tree."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tarmac.agent.cgroups.blockio import BlkioV1, IoV2
from tarmac.agent.cgroups.hierarchy import CgroupError
from tarmac.agent.cgroups.mounted import mounted
from tarmac.agent.cgroups.v1 import V1
from tarmac.decide.qosclasses.blockio import NO_CLASS, BlockioParameters

BLKIO = Path("/sys/fs/cgroup/blkio")


def root_disk() -> tuple[int, int]:
    """The disk under the temporary folder."""
    device = os.stat("/tmp").st_dev
    return os.major(device), os.minor(device)


@pytest.fixture
def group() -> Iterator[str]:
    """An empty cgroup of the real kernel."""
    if os.geteuid() or not (BLKIO / "blkio.throttle.read_bps_device").exists():
        pytest.skip("needs root and version 1 of control groups with the controller blkio")
    path = f"/tarmac-test-blkio-{os.getpid()}"
    (BLKIO / path[1:]).mkdir()
    yield path
    (BLKIO / path[1:]).rmdir()


@pytest.mark.root
def test_the_kernel_takes_a_class_another_one_and_none(group: str) -> None:
    hierarchy = mounted()
    assert isinstance(hierarchy, V1)
    driver = hierarchy.block_io()
    assert driver is not None
    disk = root_disk()
    slow = BlockioParameters(throttles={"ReadBps": {disk: 1 << 20}, "WriteIOPS": {disk: 100}})
    fast = BlockioParameters(throttles={"ReadBps": {disk: 9 << 20}, "WriteBps": {disk: 5 << 20}})
    assert driver.has(group, NO_CLASS)
    for wanted in (slow, fast, fast, NO_CLASS):
        driver.put(group, wanted)
        assert driver.has(group, wanted)
    assert not driver.has(group, slow)
    driver.put(group, slow)
    text = f"{disk[0]}:{disk[1]} 7"
    (BLKIO / group[1:] / "blkio.throttle.write_bps_device").write_text(text)  # another program adds a throttle
    assert not driver.has(group, slow)


@pytest.mark.root
def test_weights_where_the_kernel_has_bfq(group: str) -> None:
    if not (BLKIO / group[1:] / "blkio.bfq.weight").exists():
        pytest.skip("this kernel has no bfq")
    driver = BlkioV1(BLKIO)
    driver.put(group, BlockioParameters(weight=200))
    assert (BLKIO / group[1:] / "blkio.bfq.weight").read_text().strip() == "200"
    assert driver.has(group, BlockioParameters(weight=200))
    driver.put(group, NO_CLASS)
    assert (BLKIO / group[1:] / "blkio.bfq.weight").read_text().strip() == "100"


def test_a_group_that_is_gone_is_in_no_class(tmp_path: Path) -> None:
    assert not BlkioV1(tmp_path).has("/gone", BlockioParameters(weight=20))
    with pytest.raises(CgroupError, match="No such file"):
        BlkioV1(tmp_path).put("/gone", NO_CLASS)


def test_version_2_writes_one_line_for_each_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "g").mkdir()
    (tmp_path / "g/io.max").write_text("8:0 rbps=max wbps=5 riops=max wiops=max\n")
    (tmp_path / "g/io.weight").write_text("default 100\n")
    written: list[tuple[str, str]] = []
    monkeypatch.setattr("tarmac.agent.cgroups.blockio.attempt", lambda file, text: written.append((file.name, text)))
    wanted = BlockioParameters(weight=505, throttles={"ReadBps": {(8, 0): 7, (8, 16): 9}})
    IoV2(tmp_path).put("/g", wanted)
    assert written == [
        ("io.max", "8:0 rbps=7 wbps=max riops=max wiops=max"),
        ("io.max", "8:16 rbps=9 wbps=max riops=max wiops=max"),
        ("io.weight", "5000"),
    ]
    assert not IoV2(tmp_path).has("/g", wanted)
    (tmp_path / "g/io.max").write_text(
        "8:0 rbps=7 wbps=max riops=max wiops=max\n8:16 rbps=9 wbps=max riops=max wiops=max\n"
    )
    (tmp_path / "g/io.weight").write_text("default 5000\n")
    assert IoV2(tmp_path).has("/g", wanted)


def test_version_2_prefers_the_weights_of_bfq(tmp_path: Path) -> None:
    (tmp_path / "g").mkdir()
    (tmp_path / "g/io.max").write_text("")
    (tmp_path / "g/io.bfq.weight").write_text("default 100\n")
    IoV2(tmp_path).put("/g", BlockioParameters(weight=300))
    assert (tmp_path / "g/io.bfq.weight").read_text() == "300"


def test_a_weight_without_a_file_for_it_is_not_so(tmp_path: Path) -> None:
    (tmp_path / "g").mkdir()
    (tmp_path / "g/io.max").write_text("")
    wanted = BlockioParameters(weight=300)
    assert not IoV2(tmp_path).has("/g", wanted)
    with pytest.raises(CgroupError, match="weights need the disk's scheduler to be bfq"):
        IoV2(tmp_path).put("/g", wanted)
