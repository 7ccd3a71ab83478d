"""Starts a containerd of one's own, adopts one that runs, and ends it with everything that it started.

It gets a session of its own and outlives whoever started it, as its containers outlive it. `stop` first asks it to
remove the pods, so that networks and cgroups are given back in good order, and then makes sure that nothing is left
whatever became of the asking.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import BinaryIO, NoReturn

from tarmac.base.clock import Clock, SystemClock
from tarmac.base.log import log
from tarmac.base.tasks import background
from tarmac.runtimes.containerd.config import ContainerdSettings, config_text, runsc_text, sandboxes
from tarmac.runtimes.containerd.leftovers import (
    delete_containers,
    end_orphans,
    end_processes,
    is_memory_backed,
    mount_memory,
    parent,
    processes_naming,
    release_namespaces,
    unmount_below,
)
from tarmac.runtimes.interface import Image, Runtime, RuntimeFault

_log = log("runtimes.containerd")

_START_SECONDS = 30.0
_SPAWN_AGAIN_SECONDS = 3.0
_STOP_SECONDS = 10.0
_REMOVE_SECONDS = 60.0
_CAP_SYS_RESOURCE = 24
_PIECE = 1 << 20
_LONGEST_SOCKET_PATH = 107  # the kernel's


def _unseen(_done: int, _total: int) -> None:
    """Nobody watches."""


async def start(settings: ContainerdSettings, clock: Clock | None = None) -> None:
    """Have it running, with the images of its parts; one that runs is adopted. Raises RuntimeError.

    It may need a moment more until it has found what it ran before and takes calls of CRI: see `answers`.
    """
    if len(str(settings.socket)) > _LONGEST_SOCKET_PATH:
        raise RuntimeError(f"the path of the socket is too long for the kernel: {settings.socket}")
    clock = clock or SystemClock()
    deadline = clock.monotonic() + _START_SECONDS
    while True:
        await _have_it_listen(settings, clock, deadline)
        end_orphans(settings.run)
        try:
            await import_images(settings, settings.parts.images)
        except RuntimeError:
            if _listens(settings):
                raise
            continue  # it was killed a moment ago, and listened until it was dead
        return


async def adopt(settings: ContainerdSettings, clock: Clock | None = None) -> None:
    """Have the images of its parts in one that somebody else has just started. Raises RuntimeError."""
    clock = clock or SystemClock()
    deadline = clock.monotonic() + _START_SECONDS
    while not _listens(settings):
        if clock.monotonic() > deadline:
            raise RuntimeError(f"containerd does not listen on {settings.socket}")
        await clock.sleep(0.05)
    await import_images(settings, settings.parts.images)


async def _have_it_listen(settings: ContainerdSettings, clock: Clock, deadline: float) -> None:
    may_spawn = 0.0
    while not _listens(settings):
        now = clock.monotonic()
        if now > deadline:
            raise RuntimeError(f"containerd does not listen on {settings.socket}: {_last_words(settings)}")
        # One that was killed a moment ago may still be dying, and one that was started may not show yet.
        if now >= may_spawn and not processes(settings):
            _prepare(settings)
            _spawn(settings)
            may_spawn = now + _SPAWN_AGAIN_SECONDS
        await clock.sleep(0.05)


async def stop(settings: ContainerdSettings, *, remove: bool = False, clock: Clock | None = None) -> None:
    """Remove its pods, end it, and leave nothing of it; with `remove`, not even its images."""
    clock = clock or SystemClock()
    if await answers(settings):
        await _remove_pods(settings)
    await _end_daemon(settings, clock)
    delete_containers(settings.parts.runc, settings.run / "runc")
    end_processes(processes_naming(settings.run))
    for folder in (settings.run, settings.root):
        unmount_below(folder)
    shutil.rmtree(settings.run, ignore_errors=True)
    if remove:
        shutil.rmtree(settings.root, ignore_errors=True)


def processes(settings: ContainerdSettings) -> list[int]:
    """The daemon itself: none if it is down. Neither its shims count nor what it is just about to start."""
    config = str(settings.run / "config.toml")
    found = {pid for pid in processes_naming(settings.run) if config in _command_line(pid)}
    return [pid for pid in found if parent(pid) not in found]


def own_processes(settings: ContainerdSettings) -> list[int]:
    """The daemon and its shims, but nothing that runs for pods."""
    found = {pid: _command_line(pid) for pid in processes_naming(settings.run)}
    return [pid for pid, words in found.items() if words and Path(words[0]).name.startswith("containerd")]


async def answers(settings: ContainerdSettings) -> bool:
    """Whether it takes calls, those of CRI included."""
    if not _listens(settings):
        return False
    try:
        async with _runtime(settings) as runtime, asyncio.timeout(2):
            await runtime.status()
    except (RuntimeFault, TimeoutError):
        return False
    return True


async def import_images(settings: ContainerdSettings, tars: tuple[Path, ...]) -> None:
    """Load images from OCI layout tars; those that are there already cost little. Raises RuntimeError."""
    for tar in tars:
        await import_image(settings, tar)


async def import_image(
    settings: ContainerdSettings, tar: Path, name: str = "", progress: Callable[[int, int], None] = _unseen
) -> None:
    """Load an OCI or docker archive, under a name of its own or another. Raises RuntimeError, OSError.

    `progress` hears how many bytes of how many containerd has taken.
    """
    if not _listens(settings):
        raise RuntimeError(f"containerd does not listen on {settings.socket}: is `tarmac up` running?")
    ctr = [str(settings.parts.ctr), "--address", str(settings.socket), "--namespace", "k8s.io", "images", "import"]
    naming = ["--index-name", name] if name else []
    with tar.open("rb") as archive:
        process = await asyncio.create_subprocess_exec(
            *ctr, *naming, "-", stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        async with background(
            _feed(process, archive, tar.stat().st_size, progress), f"import of {tar.name}"
        ) as feeding:
            assert process.stderr is not None, "it was asked for"
            said = await process.stderr.read()
            await process.wait()
            await feeding
    if process.returncode:
        raise RuntimeError(f"cannot import {tar.name}: {said.decode(errors='replace').strip()}")


async def images(settings: ContainerdSettings) -> Sequence[Image]:
    """What it has. Raises RuntimeFault."""
    async with _runtime(settings) as runtime:
        return await runtime.images()


async def _feed(
    process: asyncio.subprocess.Process, archive: BinaryIO, total: int, progress: Callable[[int, int], None]
) -> None:
    assert process.stdin is not None, "it was asked for"
    done = 0
    progress(done, total)
    with contextlib.suppress(ConnectionError):  # it ends early when it does not like what it reads, and says why
        while piece := await asyncio.to_thread(archive.read, _PIECE):
            process.stdin.write(piece)
            await process.stdin.drain()
            done += len(piece)
            progress(done, total)
    process.stdin.close()


def _listens(settings: ContainerdSettings) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(settings.socket)) == 0


def _prepare(settings: ContainerdSettings) -> None:
    for folder in (settings.root, settings.run, settings.cni_bin, settings.cni_conf, settings.certs):
        folder.mkdir(parents=True, exist_ok=True)
    if not is_memory_backed(settings.run):
        mount_memory(settings.run)
    settings.run.chmod(0o711)  # processes in user namespaces pass through it
    release_namespaces(settings.run / "state")
    loopback = settings.cni_bin / "loopback"  # containerd calls it first for every pod, whatever networks it has
    if not loopback.exists():
        loopback.unlink(missing_ok=True)  # a link to parts that are gone
        loopback.symlink_to(settings.parts.cni / "loopback")
    config = config_text(settings, restrict_oom_score=not _may_lower_oom_scores())
    (settings.run / "config.toml").write_text(config)
    for handler, file in sandboxes(settings).items():
        file.write_text(runsc_text(settings, handler))


def become(settings: ContainerdSettings) -> NoReturn:
    """Prepare its folders and turn this process into it: for whoever is kept running by a service manager.

    Raises RuntimeError when one runs already, OSError.
    """
    if _listens(settings):
        raise RuntimeError(f"a containerd listens on {settings.socket} already")
    _prepare(settings)
    program = str(settings.parts.containerd)
    os.execve(program, [program, "-c", str(settings.run / "config.toml")], {**os.environ, "PATH": settings.parts.path})


def _spawn(settings: ContainerdSettings) -> None:
    enter = ["nsenter", f"--net={settings.network_namespace}"] if settings.network_namespace else []
    command = [*settings.wrapper, *enter, str(settings.parts.containerd), "-c", str(settings.run / "config.toml")]
    with _log_file(settings).open("ab") as output:
        # `setsid --fork` makes it nobody's child: no one has to wait for it.
        subprocess.run(
            ["setsid", "--fork", *command],
            check=True,
            env={**os.environ, "PATH": settings.parts.path},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )


async def _remove_pods(settings: ContainerdSettings) -> None:
    try:
        async with _runtime(settings) as runtime, asyncio.timeout(_REMOVE_SECONDS):
            sandboxes = await runtime.sandboxes()
            await asyncio.gather(*(_remove_pod(runtime, sandbox.id) for sandbox in sandboxes))
    except (RuntimeFault, TimeoutError) as fault:
        _log.warning("Pods are ended by force", reason=str(fault) or type(fault).__name__)


@contextlib.asynccontextmanager
async def _runtime(settings: ContainerdSettings) -> AsyncGenerator[Runtime]:
    from tarmac.runtimes.cri import CriRuntime  # its messages cost 5 MB and a moment: not for who only writes settings

    runtime = CriRuntime(settings.endpoint)
    try:
        yield runtime
    finally:
        await runtime.close()


async def _remove_pod(runtime: Runtime, id: str) -> None:
    with contextlib.suppress(RuntimeFault):  # what refuses is ended by force later
        await runtime.stop_sandbox(id)
        await runtime.remove_sandbox(id)


async def _end_daemon(settings: ContainerdSettings, clock: Clock) -> None:
    for pid in processes(settings):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    deadline = clock.monotonic() + _STOP_SECONDS
    while processes(settings) and clock.monotonic() < deadline:
        await clock.sleep(0.05)


def _may_lower_oom_scores() -> bool:
    status = Path("/proc/self/status").read_text()
    effective = next(line for line in status.splitlines() if line.startswith("CapEff:")).split()[1]
    return bool(int(effective, 16) >> _CAP_SYS_RESOURCE & 1)


def _command_line(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []


def _log_file(settings: ContainerdSettings) -> Path:
    return settings.root / "containerd.log"


def _last_words(settings: ContainerdSettings) -> str:
    try:
        lines = _log_file(settings).read_text(errors="replace").splitlines()
    except OSError:
        return "it wrote no log"
    return (lines or ["it said nothing"])[-1]
