"""A subPath shows a part of its volume and nothing else, despite symlinks that the volume's owner changes."""

from __future__ import annotations

import ctypes
import itertools
import os
import threading
import time
from pathlib import Path

import pytest

from tarmac.volumes.interface import MountedVolume, Unusable
from tarmac.volumes.linux.safepath import PathEscapes, hold
from tests.volumes.bench import UID, Bench, content, put

_libc = ctypes.CDLL(None)
_HERE, _EXCHANGE = -100, 2


async def part(bench: Bench, volume: MountedVolume, path: str, index: int = 0) -> str:
    return await bench.volumes.subpath(volume, path, UID, "main", index)


async def scratch(bench: Bench) -> MountedVolume:
    return (await bench.mount({"name": "scratch", "emptyDir": {}}))["scratch"]


async def test_a_part_that_is_missing_becomes_a_folder_like_the_volume(bench: Bench) -> None:
    volume = await scratch(bench)
    shown = await part(bench, volume, "logs/today", 3)
    assert shown == f"{bench.root}/pods/{UID}/volume-subpaths/scratch/main/3"
    put(f"{shown}/line", "text")
    assert content(f"{volume.path}/logs/today/line") == "text"
    assert os.stat(f"{volume.path}/logs").st_mode == os.stat(volume.path).st_mode


async def test_one_file_of_a_config_map_is_shown(bench: Bench) -> None:
    bench.add_config_map("settings", colour="red")
    volume = (await bench.mount({"name": "config", "configMap": {"name": "settings"}}))["config"]
    assert content(await part(bench, volume, "colour")) == "red"


async def test_a_restarted_container_sees_what_is_there_now(bench: Bench) -> None:
    volume = await scratch(bench)
    put(f"{volume.path}/file", "old")
    await part(bench, volume, "file")
    os.unlink(f"{volume.path}/file")
    os.mkdir(f"{volume.path}/file")
    put(f"{volume.path}/file/inner", "new")
    shown = await part(bench, volume, "file")
    assert shown == await part(bench, volume, "file")
    assert content(f"{shown}/inner") == "new"


async def test_links_within_the_volume_are_followed(bench: Bench) -> None:
    volume = await scratch(bench)
    os.makedirs(f"{volume.path}/real")
    os.symlink("real", f"{volume.path}/link")
    put(f"{await part(bench, volume, 'link')}/file", "text")
    assert content(f"{volume.path}/real/file") == "text"


@pytest.mark.parametrize("target", ["/etc", "../../../../..", "/proc/self/root", "loop"])
async def test_links_out_of_the_volume_are_refused(bench: Bench, target: str) -> None:
    volume = await scratch(bench)
    os.symlink(target, f"{volume.path}/loop")
    for path in ("loop", "loop/deeper", "../scratch", "a/../../scratch"):
        with pytest.raises(Unusable, match="subPath"):
            await part(bench, volume, path)
    await bench.volumes.unmount(UID)
    assert not any(bench.leftovers().values())


def test_swapping_a_folder_for_a_link_never_leads_out(tmp_path: Path) -> None:
    """The classic race: the folder is checked, and replaced by a link before its use."""
    volume, outside = tmp_path / "volume", tmp_path / "outside"
    volume.mkdir()
    outside.mkdir()
    (volume / "a").mkdir()
    os.symlink(outside, volume / "b")
    stop = threading.Event()

    def swap() -> None:
        one, other = os.fsencode(volume / "a"), os.fsencode(volume / "b")
        while not stop.is_set():
            _libc.renameat2(_HERE, one, _HERE, other, _EXCHANGE)

    swapper = threading.Thread(target=swap)
    swapper.start()
    held, until = 0, time.monotonic() + 30
    try:
        for attempt in itertools.count():
            if attempt >= 3000 and (held or time.monotonic() > until):  # on a busy machine, threads rarely alternate
                break
            try:
                descriptor = hold(str(volume), "a/made/inside")
            except (PathEscapes, OSError):
                continue
            where = os.readlink(f"/proc/self/fd/{descriptor}")
            os.close(descriptor)
            held += 1
            assert where.startswith(f"{volume}/")
    finally:
        stop.set()
        swapper.join()
    assert held
    assert os.listdir(outside) == []
