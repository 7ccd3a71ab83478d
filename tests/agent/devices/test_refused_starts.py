"""A real agent with a damaged device checkpoint, or with a folder that is not its own, does not start."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tarmac.agent.devices.checkpoint import FILE
from tests.agent.sizing.stage import Stage


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with Stage(tmp_path) as made:
        yield made


def said(stage: Stage, *flags: str) -> str:
    """Return the error line of an agent that exits with 78 before it changes anything."""
    done = stage.run(*flags)
    assert done.returncode == os.EX_CONFIG, done.stderr
    assert stage.untouched()
    [line] = [each for each in done.stderr.splitlines() if each.startswith("error: ")]
    return line.removeprefix("error: ")


def test_a_damaged_file_of_devices(stage: Stage) -> None:
    stage.root.mkdir(parents=True)
    path = stage.root / FILE
    path.write_text('{"Data":{"PodDeviceEntries":[],"RegisteredDevices":{}},"Checksum":1}')
    remedy = "drain the node, delete the file and start the agent again"
    assert said(stage) == (f"{path}: its checksum does not match, so the assigned devices are unknown; {remedy}")
    assert path.exists()


def test_a_folder_that_is_none(stage: Stage) -> None:
    path = stage.folder / "file"
    path.touch()
    assert said(stage, f"--device-plugin-dir={path}") == f"--device-plugin-dir: {path} is not a directory"
