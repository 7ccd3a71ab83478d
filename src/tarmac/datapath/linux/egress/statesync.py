"""Shares connections between two gateways: Debian's `conntrackd` in the egress namespace of each.

Each kernel's connection changes are sent to the partner and written into its table at once, including translation and
mark. So the partner can continue a connection with a translated source port, which it could not guess, and one in which
only the outside sends.

The two communicate by unicast through the tunnel, with the addresses that represent nodes. The program outlives the
agent and is adopted by the next one if its settings are unchanged. A node without the program works without it.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final

from tarmac.base.clock import Clock, SystemClock
from tarmac.base.log import log
from tarmac.datapath.linux import links, namespaces
from tarmac.datapath.linux.egress.encryption import Run
from tarmac.datapath.linux.egress.programs import DetachedProgram
from tarmac.datapath.linux.naming import TUNNEL
from tarmac.datapath.linux.netlink import Netlink
from tarmac.datapath.linux.tables.gateway import SYNC_PORT
from tarmac.decide.reach.marks import node_marks

_TIMEOUT: Final = 5.0
_PAUSE: Final = 0.02
_RETRY_SECONDS: Final = 10.0  # pause after it could not be started, or did not stay
_SECONDS: Final = 2
_LOOPBACK: Final = 1
_WAITING: Final = ("txqueue", "rsqueue")

_log = log("external")


class StateSync:
    """The program of one node, with the egress namespace at `namespace`. `run` runs in the datapath's thread."""

    def __init__(self, run_dir: Path, namespace: Path, run: Run, clock: Clock | None = None) -> None:
        found = shutil.which("conntrackd")
        self.program: Path | None = Path(found) if found else None
        self.partner = ""
        self.problem = ""
        self._namespace, self._run, self._clock = namespace, run, clock or SystemClock()
        self._trial = run_dir / "statesync-trial"
        self._base = run_dir / "statesync"
        self._wanted = ("", "")  # own address, partner's
        self._retry_at = float("-inf")
        self._tested: Path | None = None
        self._lock = asyncio.Lock()

    async def possible(self) -> bool:
        """Return True if the program runs on this machine.

        It is tried in a namespace of its own until it has succeeded once.
        """
        async with self._lock:
            if self.program is not None and self._tested != self.program and await self._try():
                self._tested = self.program  # a failed attempt may only have been slow: it is repeated on the next call
            return self.program is not None and self._tested == self.program

    async def ensure(self, own: str, partner: str) -> None:
        """Share connections with the gateway at a node's address from now on; an empty `partner` stops sharing."""
        async with self._lock:
            if (own, partner) != self._wanted:
                self._retry_at = float("-inf")
            # Stored before the attempt: `check` continues with it if this fails.
            self._wanted = own, partner
            await self._check()

    async def check(self) -> None:
        """Restart the program if it has ended."""
        async with self._lock:
            await self._check()

    async def backlog(self) -> int | None:
        """Return the number of changes that the partner has not confirmed yet; None if nothing is shared."""
        if not self.partner or self.program is None:
            return None
        return await asyncio.to_thread(self._queue_length, self.program)

    def stop_now(self) -> None:
        """Stop sharing, in the datapath's thread."""
        # Before the process ends: a check in between must not start it again.
        self.partner, self._wanted = "", ("", "")
        _stop(self._base)

    def remove_now(self) -> None:
        """Remove everything, including a trial's files, in the datapath's thread."""
        self.stop_now()
        _leave(self._trial, self._trial.with_suffix(".netns"))

    async def _check(self) -> None:
        own, partner = self._wanted
        if not partner:
            self.partner = self.problem = ""
            if self._base.with_suffix(".conf").exists():
                await self._run(lambda: _stop(self._base))
            return
        text = settings(self._base, node_marks(own)[1], node_marks(partner)[1], TUNNEL)
        process = _running(self._base, self._namespace, text)
        # Does not wait until the program answers: leases are served after this, and the next check will see it.
        self.partner = partner if process and _answers(self._base, process) else ""
        now = self._clock.monotonic()
        if self.partner:
            self.problem = ""
        elif now >= self._retry_at:
            self._retry_at = now + _RETRY_SECONDS
            await self._begin(self._base, self._namespace, text)
        elif not process and not self.problem:
            self._fail("conntrackd does not stay")

    async def _begin(self, base: Path, namespace: Path, text: str) -> bool:
        program = self.program
        try:
            if program is None:
                raise OSError("there is no conntrackd on this node")
            await self._run(lambda: _begin(program, base, namespace, text))
        except (OSError, subprocess.SubprocessError) as error:
            self._fail(str(error))
            return False
        return True

    def _fail(self, why: str) -> None:
        if why != self.problem:
            _log.warning("connections are not shared with another gateway", why=why)
        self.problem = why

    async def _try(self) -> bool:
        """Run it for a moment without a partner."""
        base, namespace = self._trial, self._trial.with_suffix(".netns")
        text = settings(base, "::1", "::1", "lo")
        until = self._clock.monotonic() + _TIMEOUT
        try:
            await self._run(lambda: _trial_namespace(namespace))
            begun = await self._begin(base, namespace, text)
            while begun and self._clock.monotonic() < until:
                process = _running(base, namespace, text)
                if not process:
                    break
                if _answers(base, process):
                    return True
                await self._clock.sleep(_PAUSE)
            self._fail(self.problem or "conntrackd does not stay")
            return False
        finally:
            # Also after a failure: the program would keep the trial's namespace alive.
            await self._run(lambda: _leave(base, namespace))

    def _queue_length(self, program: Path) -> int | None:
        command = [str(program), "-C", str(self._base.with_suffix(".conf")), "-s", "queue"]
        try:
            done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=_SECONDS)
        except (OSError, subprocess.SubprocessError):
            return None
        return queued_messages(done.stdout)


def settings(base: Path, own: str, partner: str, link: str) -> str:
    """Return the program's configuration: reliable unicast, and received changes go to the kernel without a cache."""
    return f"""\
Sync {{
    Mode FTFW {{
        DisableExternalCache yes
        StartupResync yes
    }}
    UDP {{
        IPv6_address {own}
        IPv6_Destination_Address {partner}
        Port {SYNC_PORT}
        Interface {link}
        SndSocketBuffer 1249280
        RcvSocketBuffer 1249280
        Checksum yes
    }}
}}
General {{
    Systemd no
    HashSize 32768
    HashLimit 524288
    LogFile no
    Syslog no
    LockFile {base.with_suffix(".lock")}
    UNIX {{
        Path {base.with_suffix(".ctl")}
    }}
    NetlinkBufferSize 2097152
    NetlinkBufferSizeMaxGrowth 16777216
}}
"""


def queued_messages(statistics: str) -> int:
    """Return the number of messages in the queues, from the program's statistics."""
    found, queue = 0, ""
    for line in statistics.splitlines():
        words = line.split()
        if words[:1] == ["queue"]:
            queue = words[1].rstrip(":")
        elif words[:2] == ["current", "elements:"] and queue in _WAITING:
            found += int(words[2])
    return found


def _daemon(base: Path) -> DetachedProgram:
    return DetachedProgram(["-C", str(base.with_suffix(".conf"))], base.with_suffix(".pid"))


def _running(base: Path, namespace: Path, text: str) -> int:
    """Return the process that runs with exactly these settings in a namespace; 0 if there is none."""
    try:
        process = _daemon(base).process() if base.with_suffix(".conf").read_text() == text else 0
        own = os.stat(f"/proc/{process}/ns/net") if process else None
    except FileNotFoundError:
        return 0
    return process if own is not None and own.st_ino == namespace.stat().st_ino else 0


def _answers(base: Path, process: int) -> bool:
    """Return True if its control socket exists."""
    if not base.with_suffix(".ctl").exists():
        return False
    with suppress(ProcessLookupError):
        # It gives itself realtime priority; pods must come first.
        if os.sched_getscheduler(process) != os.SCHED_OTHER:
            os.sched_setscheduler(process, os.SCHED_OTHER, os.sched_param(0))
    return True


def _begin(program: Path, base: Path, namespace: Path, text: str) -> None:
    _stop(base)  # also the lock of a killed one, which would prevent the next start
    base.parent.mkdir(parents=True, exist_ok=True)
    # Before the start: a process without it could not be told from one with other settings.
    base.with_suffix(".conf").write_text(text)
    with namespaces.inside(namespace):
        _daemon(base).start(program)


def _stop(base: Path) -> None:
    if any(base.with_suffix(suffix).exists() for suffix in (".conf", ".pid")):
        _daemon(base).end()
    # The settings go last: while they exist, a process may still have to be found.
    for suffix in (".ctl", ".lock", ".conf"):
        base.with_suffix(suffix).unlink(missing_ok=True)


def _leave(base: Path, namespace: Path) -> None:
    _stop(base)
    namespaces.remove(namespace)


def _trial_namespace(path: Path) -> None:
    namespaces.create(path)
    with namespaces.inside(path):
        netlink = Netlink()
    try:
        netlink.request([links.setting(_LOOPBACK)])
    finally:
        netlink.close()
