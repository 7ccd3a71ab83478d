"""The cost of a backup for concurrent writers, and the time of a restore until the server serves again."""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter

import uvloop

from benchmarks import scenarios, subjects
from benchmarks.report import Row
from benchmarks.subjects import Subject

_OBJECTS = 50_000
_NAMESPACE = "bench-backup"
_LOAD, _CONNECTIONS = 400, 8
_TARMAC = (sys.executable, "-m", "tarmac.apps.main")


def backup_rows(directory: Path, repeat: int, say: Callable[[str], None]) -> Iterator[Row]:
    """Measure on SQLite, the default of `init`."""
    folder = directory / "backups"
    folder.mkdir()
    file, data = folder / "backup", f"--data-dir={folder / 'data'}"
    with subjects.tarmac(folder) as subject:
        say(f"backing up {_OBJECTS:,} objects")
        quiet, meanwhile, seconds = uvloop.run(_measure(subject, repeat, [str(file), "--without-keys", data]))
    subprocess.run([*_TARMAC, "backup", "verify", str(file)], check=True, capture_output=True)
    say("restoring them")
    steps = _restore([str(file), "--accept-loss", data])
    began = perf_counter()
    with subjects.tarmac(folder):
        steps["start to ready"] = perf_counter() - began
    copying = steps.pop("build")
    yield Row(f"backup of {_OBJECTS:,} objects, verified", "s", seconds)
    yield Row("p99 of a create, 8 clients", "ms", quiet)
    yield Row("p99 of a create, 8 clients, while a backup is made", "ms", meanwhile)
    ratio = statistics.median(meanwhile) / statistics.median(quiet)
    yield Row("p99 while a backup is made over p99 without", "times", [ratio], 2)
    yield Row(f"restore of {_OBJECTS:,} objects: copying", "s", [copying])
    yield Row("restore to a serving server, without copying", "s", [sum(steps.values())], 10)
    for step, seconds_of_it in steps.items():
        yield Row(f"of it {step}", "s", [seconds_of_it])


async def _measure(subject: Subject, repeat: int, flags: list[str]) -> tuple[list[float], list[float], list[float]]:
    """p99 of small loads without and with a running backup, in turns; seconds of each backup."""
    await scenarios.make_namespace(subject, _NAMESPACE)
    await scenarios.create(subject, _NAMESPACE, "kept", _OBJECTS, 64, size=1250)
    quiet: list[float] = []
    meanwhile: list[float] = []
    seconds: list[float] = []
    for run in range(repeat):
        Path(flags[0]).unlink(missing_ok=True)
        quiet += [await _p99(subject, f"quiet-{run}-{number}") for number in range(4)]
        began = perf_counter()
        backup = await asyncio.create_subprocess_exec(*_TARMAC, "backup", "create", *flags, stderr=subprocess.DEVNULL)
        number = 0
        while backup.returncode is None:
            meanwhile.append(await _p99(subject, f"busy-{run}-{number}"))
            number += 1
        seconds.append(perf_counter() - began)
        assert backup.returncode == 0, "no backup was made"
    return quiet, meanwhile, seconds


async def _p99(subject: Subject, prefix: str) -> float:
    return (await scenarios.create(subject, _NAMESPACE, prefix, _LOAD, _CONNECTIONS)).p99_ms


def _restore(flags: list[str]) -> dict[str, float]:
    """Seconds of each step; `build` is the copying."""
    steps = {"the program's own start": perf_counter()}
    with subprocess.Popen([*_TARMAC, "restore", *flags], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            steps[line.strip().removeprefix("tarmac: ")] = perf_counter()
    assert process.returncode == 0, f"no restore: {list(steps)}"
    ends = [*list(steps.values())[1:], perf_counter()]
    return {step: end - began for (step, began), end in zip(steps.items(), ends, strict=True)}
