"""A city's containerd is started again after every failure."""

from __future__ import annotations

import asyncio
import os
import subprocess
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tarmac.agent.cgroups.v2 import V2
from tarmac.apps.cities import realcities
from tarmac.apps.cities.cgroups import Confinement
from tarmac.apps.cities.layout import CityLayout
from tarmac.base.clock import SystemClock
from tarmac.base.tasks import supervise


class Hurried(SystemClock):
    """A clock without pauses."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


async def test_one_that_does_not_start_keeps_nobody_waiting_and_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    failures = [RuntimeError("it does not listen"), OSError("no space left"), subprocess.CalledProcessError(1, "mount")]
    begun, runs, before = asyncio.Event(), asyncio.Event(), list[bool]()

    async def start(_settings: Any) -> None:
        before.append(begun.is_set())
        if len(before) <= len(failures):
            raise failures[len(before) - 1]

    def processes(_settings: Any) -> list[int]:
        runs.set()
        return [os.getpid()]

    monkeypatch.setattr(realcities.containerd, "start", start)
    monkeypatch.setattr(realcities.containerd, "processes", processes)
    host = cast("Any", SimpleNamespace(name="dfw", namespace=tmp_path / "netns"))
    city = CityLayout("DFW", host, tmp_path / "data", tmp_path / "run", "/pods/dfw", "/own/dfw")
    confined = Confinement(V2(tmp_path / "cgroups"))
    keep = partial(realcities._keep_containerd, city, cast("Any", None), confined, begun)
    keeping = asyncio.create_task(supervise("containerd of dfw", keep, Hurried()))
    try:
        await asyncio.wait_for(runs.wait(), 5)
    finally:
        keeping.cancel()
    assert before == [False, True, True, True], "other tasks wait for the first attempt only"
    said = capfd.readouterr().err
    assert all(str(failure) in said for failure in failures)
