"""The NVIDIA drivers that a runsc knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarmac.apps.gpudriver import gpu_sandboxes
from tarmac.runtimes.nvproxy import known_drivers, nearest


def a_runsc(folder: Path, *drivers: str, code: int = 0) -> Path:
    """A program that lists these."""
    program = folder / "runsc"
    lines = "".join(f"echo {each}\n" for each in drivers)
    program.write_text(f'#!/bin/sh\n[ "$*" = "nvproxy list-supported-drivers" ] || exit 9\n{lines}exit {code}\n')
    program.chmod(0o755)
    return program


def test_the_known_drivers_are_read_from_runsc_itself(tmp_path: Path) -> None:
    assert known_drivers(a_runsc(tmp_path, "580.9.1", "550.54.15", "580.10.1")) == ("550.54.15", "580.9.1", "580.10.1")


def test_a_runsc_that_cannot_tell_knows_none(tmp_path: Path) -> None:
    assert known_drivers(a_runsc(tmp_path, "580.9.1", code=1)) == ()
    assert known_drivers(tmp_path / "missing") == ()


@pytest.mark.parametrize(
    ("version", "expected"),
    [("580.95.05", "580.105.08"), ("550.1", "550.90.12"), ("700.1.1", "620.06.00"), ("580.65.06", "580.65.06")],
)
def test_the_nearest_driver_is_of_the_same_branch_if_there_is_one(version: str, expected: str) -> None:
    known = ("535.129.03", "550.90.12", "580.65.06", "580.105.08", "580.159.04", "620.06.00")
    assert nearest(version, known) == expected


def test_a_driver_that_runsc_does_not_know_is_named_with_the_nearest(tmp_path: Path) -> None:
    runsc = a_runsc(tmp_path, "580.159.04")
    assert gpu_sandboxes("580.159.04", runsc).sandboxable
    state = gpu_sandboxes("580.1.1", runsc)
    assert (state.sandboxable, state.reason) == (False, "DriverUnknown")
    assert state.message == (
        "gVisor does not know NVIDIA's driver 580.1.1, so GPUs are for the RuntimeClass runc only; "
        "install 580.159.04, the nearest that it knows"
    )
    assert gpu_sandboxes("580.1.1", None).reason == "NoGVisor"
