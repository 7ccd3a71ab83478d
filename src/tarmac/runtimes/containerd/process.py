"""Starts a private containerd, adopts a running one, and stops it with all its processes.

It gets a session of its own and outlives the process that started it, as its containers outlive it. `stop` first asks
it to remove the pods, so that networks and cgroups are released in order, and then removes all remains, even if the
first step failed.
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
from tarmac.runtimes.containerd.orphans import (
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
_SPAWN_RETRY_SECONDS = 3.0
_STOP_SECONDS = 10.0
_REMOVE_SECONDS = 60.0
_CAP_SYS_RESOURCE = 24
_CHUNK_SIZE = 1 << 20
_MAX_SOCKET_PATH = 107  # the kernel's limit


def _unseen(_done: int, _total: int) -> None:
    """Ignore progress."""


async def start(settings: ContainerdSettings, clock: Clock | None = None) -> None:
    """Start containerd and import the images of its parts; a running one is adopted. Raises RuntimeError.

    It may need some more time to recover its containers before it accepts CRI calls: see `answers`.
    """
    if len(str(settings.socket)) > _MAX_SOCKET_PATH:
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
            continue  # it was killed a moment ago, but its socket still accepted connections
        return


async def adopt(settings: ContainerdSettings, clock: Clock | None = None) -> None:
    """Import the images of its parts into a containerd that the service manager has started. Raises RuntimeError."""
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
        # A killed daemon may still be exiting, and a started one may not be visible yet.
        if now >= may_spawn and not processes(settings):
            _prepare(settings)
            _spawn(settings)
            may_spawn = now + _SPAWN_RETRY_SECONDS
        await clock.sleep(0.05)


async def stop(settings: ContainerdSettings, *, remove: bool = False, clock: Clock | None = None) -> None:
    """Remove all pods, stop containerd and remove all its remains; with `remove`, its images too."""
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
    """Return the daemon's process; empty if it is down. Excludes its shims and the children it is about to exec."""
    config = str(settings.run / "config.toml")
    found = {pid for pid in processes_naming(settings.run) if config in _command_line(pid)}
    return [pid for pid in found if parent(pid) not in found]


def own_processes(settings: ContainerdSettings) -> list[int]:
    """Return the daemon and its shims, but no processes of pods."""
    found = {pid: _command_line(pid) for pid in processes_naming(settings.run)}
    return [pid for pid, words in found.items() if words and Path(words[0]).name.startswith("containerd")]


async def answers(settings: ContainerdSettings) -> bool:
    """Tell if it answers CRI calls within 2 s."""
    if not _listens(settings):
        return False
    try:
        async with _runtime(settings) as runtime, asyncio.timeout(2):
            await runtime.status()
    except (RuntimeFault, TimeoutError):
        return False
    return True


async def import_images(settings: ContainerdSettings, tars: tuple[Path, ...]) -> None:
    """Import images from OCI layout tars; present ones cost little. Raises RuntimeError."""
    for tar in tars:
        await import_image(settings, tar)


async def import_image(
    settings: ContainerdSettings, tar: Path, name: str = "", progress: Callable[[int, int], None] = _unseen
) -> None:
    """Import an OCI or docker archive, under its own names or as `name`. Raises RuntimeError, OSError.

    `progress` is called with the bytes sent to containerd and the total.
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
            output = await process.stderr.read()
            await process.wait()
            await feeding
    if process.returncode:
        raise RuntimeError(f"cannot import {tar.name}: {output.decode(errors='replace').strip()}")


async def images(settings: ContainerdSettings) -> Sequence[Image]:
    """Return its images. Raises RuntimeFault."""
    async with _runtime(settings) as runtime:
        return await runtime.images()


async def _feed(
    process: asyncio.subprocess.Process, archive: BinaryIO, total: int, progress: Callable[[int, int], None]
) -> None:
    assert process.stdin is not None, "it was asked for"
    done = 0
    progress(done, total)
    with contextlib.suppress(ConnectionError):  # on bad input ctr exits early; its error is read from stderr
        while piece := await asyncio.to_thread(archive.read, _CHUNK_SIZE):
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
    settings.run.chmod(0o711)  # processes in user namespaces traverse it
    release_namespaces(settings.run / "state")
    loopback = settings.cni_bin / "loopback"  # containerd calls it first for every pod, on any network
    if not loopback.exists():
        loopback.unlink(missing_ok=True)  # a dangling link to removed parts
        loopback.symlink_to(settings.parts.cni / "loopback")
    config = config_text(settings, restrict_oom_score=not _may_lower_oom_scores())
    (settings.run / "config.toml").write_text(config)
    for handler, file in sandboxes(settings).items():
        file.write_text(runsc_text(settings, handler))


def become(settings: ContainerdSettings) -> NoReturn:
    """Prepare its directories and exec containerd in this process: for use by a service manager.

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
        # `setsid --fork` detaches it from this process, which then does not have to wait for it.
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
        _log.warning("pod removal failed, pods will be killed", reason=str(fault) or type(fault).__name__)


@contextlib.asynccontextmanager
async def _runtime(settings: ContainerdSettings) -> AsyncGenerator[Runtime]:
    from tarmac.runtimes.cri import CriRuntime  # its messages cost 5 MB and import time: only for callers of CRI

    runtime = CriRuntime(settings.endpoint)
    try:
        yield runtime
    finally:
        await runtime.close()


async def _remove_pod(runtime: Runtime, id: str) -> None:
    with contextlib.suppress(RuntimeFault):  # `stop` kills the remains later
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
