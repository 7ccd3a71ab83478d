"""Recordings of consoles: their content, their retention, and the quota of each namespace."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tarmac.agent.http.machines.casts import CastFacts, CastWriter, read_header
from tarmac.agent.http.machines.recordings import DAY, RecordingLimits, Recordings, content
from tarmac.base.clock import ManualClock
from tarmac.runtimes.interface import TerminalSize


def recorded(recordings: Recordings, namespace: str, session: str, size: int = 0) -> Path:
    """Write a recording of some size."""
    made = recordings.begin(namespace, "vm", CastFacts("ann", session, "u1", keyboard=True, kind="console"))
    made.output(b"x" * size)
    made.close()
    return next((recordings._folder / namespace / "vm").glob(f"*-{session}.cast"))  # pyright: ignore[reportPrivateUsage]


def age(path: Path, when: float) -> None:
    os.utime(path, (when, when))


def test_a_recording_is_asciicast_2(tmp_path: Path) -> None:
    clock = ManualClock()
    made = CastWriter(
        tmp_path / "a" / "one.cast", "default/vm", CastFacts("ann", "s", "u", True, "console"), clock, 9999
    )
    clock.advance(1.5)
    made.output("é".encode()[:1])
    made.output("é".encode()[1:] + b"\x1b[2J\xff\r\n")
    made.resized(TerminalSize(120, 40))
    made.mark("root has the keyboard")
    made.close()
    header, *events = [json.loads(line) for line in (tmp_path / "a" / "one.cast").read_text().splitlines()]
    assert header == {
        "version": 2, "width": 80, "height": 24, "timestamp": 1_800_000_000, "title": "default/vm",
        "tarmac": {"user": "ann", "session": "s", "instanceUid": "u", "keyboard": True, "kind": "console"},
    }  # fmt: skip
    assert events == [
        [1.5, "o", "é\x1b[2J\ufffd\r\n"], [1.5, "r", "120x40"], [1.5, "m", "root has the keyboard"], [1.5, "m", "end"],
    ]  # fmt: skip
    assert (tmp_path / "a" / "one.cast").stat().st_mode & 0o777 == 0o600


def test_nothing_that_is_there_is_written_over_or_through(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    (tmp_path / "one.cast").symlink_to(tmp_path / "mine")
    with pytest.raises(FileExistsError):
        CastWriter(tmp_path / "one.cast", "", CastFacts(), ManualClock(), 9999)
    assert (tmp_path / "mine").read_text() == "precious"


def test_a_recording_that_is_too_large_says_so_and_still_ends(tmp_path: Path) -> None:
    made = CastWriter(tmp_path / "one.cast", "", CastFacts(), ManualClock(), 1_000)
    with pytest.raises(OSError, match="open another session"):
        made.output(b"x" * 2_000)
    made.close()
    assert (tmp_path / "one.cast").stat().st_size < 1_000


async def test_lists_are_newest_first_and_begin_with_the_namespace(tmp_path: Path) -> None:
    clock = ManualClock()
    recordings = Recordings(tmp_path, clock)
    recorded(recordings, "default", "first")
    clock.advance(60)
    recorded(recordings, "default", "second")
    (tmp_path / "default" / "vm" / "99999999T000000Z-odd.cast").write_bytes(b"\xff" * 100)
    assert [each.header.tarmac.session for each in await recordings.of("default", "vm")] == ["second", "first"]
    later = await recordings.of("default", "vm", after=clock.now() - 30)
    assert [each.header.tarmac.session for each in later] == ["second"]
    assert await recordings.find("default", "vm", "first", after=clock.now()) is None
    found = await recordings.find("default", "vm", "first")
    assert found is not None
    text = b"".join([chunk async for chunk in content(found)])
    assert read_header(text.splitlines()[0]) == found.header
    assert await recordings.of("default", "other") == []


async def test_the_oldest_go_after_their_days(tmp_path: Path) -> None:
    clock = ManualClock()
    recordings = Recordings(tmp_path, clock, RecordingLimits(days=30))
    old, new = recorded(recordings, "old", "a"), recorded(recordings, "default", "b")
    age(old, clock.now() - 31 * DAY)
    age(new, clock.now() - 29 * DAY)
    await recordings.make_room()
    assert not (tmp_path / "old").exists()
    assert new.exists()


async def test_the_namespace_with_most_recordings_loses_its_oldest(tmp_path: Path) -> None:
    clock = ManualClock()
    recordings = Recordings(tmp_path, clock, RecordingLimits(size=1_000_000))
    quiet = recorded(recordings, "quiet", "evidence")
    age(quiet, clock.now() - 10 * DAY)
    loud = [recorded(recordings, "loud", f"s{number}", 200_000) for number in range(8)]
    for number, each in enumerate(loud):
        age(each, clock.now() - 8 + number)
    await recordings.make_room()
    assert quiet.exists()
    assert [each.exists() for each in loud] == [False] * 4 + [True] * 4


async def test_thousands_of_empty_ones_count_as_blocks(tmp_path: Path) -> None:
    recordings = Recordings(tmp_path, ManualClock(), RecordingLimits(days=1000, size=50 * 4096))
    for number in range(80):
        recorded(recordings, "loud", f"s{number}")
    await recordings.make_room()
    assert len(list((tmp_path / "loud" / "vm").iterdir())) == 50
