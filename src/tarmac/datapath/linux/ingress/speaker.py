"""The BGP speaker of a node: Debian's BIRD in the node's own namespace, where the routers' segments are.

BIRD ends with its agent: endpoints change, and without an agent the node would announce what it cannot reach. Routers
with graceful restart keep the routes meanwhile and the kernel forwards as before, so an agent that comes back in time
loses no connection. The next agent starts a BIRD of its own, which says that it was restarted.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from tarmac.base.clock import Clock, SystemClock
from tarmac.base.log import log
from tarmac.base.statefiles import replace_state
from tarmac.datapath.linux.egress.encryption import Run
from tarmac.datapath.linux.egress.programs import DetachedProgram
from tarmac.datapath.linux.ingress.speakerconfig import TABLE, read_reports, read_routes, speaker_config, symbol
from tarmac.datapath.linux.naming import host_table, uplinks_prefix
from tarmac.datapath.linux.netlink import Netlink
from tarmac.datapath.linux.nftables import Nftables
from tarmac.datapath.linux.routing import Route, host_prefix, no_route, route, routes
from tarmac.datapath.linux.tables.speaker import speaker
from tarmac.datapath.speaker import BgpSession, SessionReport, SpeakerState

_TIMEOUT: Final = 2.0
_RETRY_SECONDS: Final = 1.0
_ERRORS: Final = "8000"  # codes from here on
_PRIVILEGES: Final = "-all,+net_bind_service,+net_admin,+net_raw"
_NICE: Final = -5
_OOM_SCORE: Final = "-900"

_log = log("ingress")


class BirdSpeaker:
    """BIRD with its files in `run_dir`. `run` runs work in the datapath's thread, which is in the node's namespace."""

    def __init__(self, run_dir: Path, run: Run, clock: Clock | None = None) -> None:
        self.program: Path | None = None
        base = run_dir / "speaker"
        self._config, self._control, self._pid = (base.with_suffix(each) for each in (".conf", ".ctl", ".pid"))
        # Ends the command line: by these paths a process of an earlier agent is found.
        self._words = ["-c", str(self._config), "-s", str(self._control)]
        own = str(run_dir)
        self._table, self._uplinks = f"{host_table(own)}-speaker", uplinks_prefix(own)
        self._run, self._clock = run, clock or SystemClock()
        self._state, self._addresses = SpeakerState(), frozenset[str]()
        self._child: subprocess.Popen[bytes] | None = None
        self._retry_at = float("-inf")
        self._netlink: Netlink | None = None
        self._rules: Nftables | None = None

    @property
    def available(self) -> bool:
        """True if there is a BIRD on this node."""
        return self.program is not None

    async def ensure(self, state: SpeakerState) -> None:
        """Have exactly these sessions; without any, or without BIRD, nothing of a speaker is left."""
        if not state.sessions or not self.available:
            self._state = SpeakerState()
            await self._run(self.remove_now)
            return
        try:
            text = speaker_config(state)
        except ValueError as error:
            raise OSError(f"BGP speaker cannot be configured: {error}") from error
        # Before the attempt: `check` continues with it if this fails.
        self._state = state
        await self._run(lambda: self._configure(text))

    async def keep_only(self, addresses: Collection[str]) -> None:
        """Withdraw all addresses but these, also those that an earlier agent announced."""
        self._addresses &= frozenset(addresses)
        if self._state.sessions or self._config.exists():
            await self._run(lambda: self._withdraw(frozenset(addresses)))

    async def announce(self, addresses: Collection[str]) -> None:
        """Announce exactly these addresses."""
        self._addresses = frozenset(addresses)
        if self._state.sessions:
            await self._run(self._announce)

    async def check(self) -> None:
        """Restart a BIRD that ended, and restore routes and rules that other programs removed."""
        if self._state.sessions:
            await self._run(self._check)

    async def reports(self) -> Mapping[str, SessionReport]:
        """Return the sessions by name; empty while BIRD does not answer."""
        if self._child is None:
            return {}
        return await asyncio.to_thread(self._read_reports, self._state.sessions)

    def close(self) -> None:
        """End BIRD and close sockets, in the datapath's thread. Routes and rules stay for the next agent."""
        self._end()
        if self._netlink is not None:
            self._netlink.close()
        if self._rules is not None:
            self._rules.close()
        self._netlink, self._rules = None, None

    def remove_now(self) -> None:
        """Remove everything, in the datapath's thread, also what an earlier agent left."""
        if not self._config.exists():
            return
        self._end()
        self._withdraw(frozenset())
        self._nftables().remove("inet", self._table)
        # Last: while it exists, a process, routes and rules may be left.
        for each in (self._control, self._config):
            each.unlink(missing_ok=True)

    def _read_reports(self, sessions: Sequence[BgpSession]) -> Mapping[str, SessionReport]:
        try:
            found = read_reports(ask(self._control, "show protocols all"), sessions)
            for name in [name for name, each in found.items() if each.exported is not None]:
                exported = read_routes(ask(self._control, f"show route exported {symbol(name)}"))
                found[name] = replace(found[name], exported=exported)
        except OSError:
            return {}
        return found

    def _configure(self, text: str) -> None:
        # First, so that no step that fails or is killed leaves something that a removal would not look for.
        before = self._config.read_text() if self._config.exists() else None
        if before != text:
            self._config.parent.mkdir(parents=True, exist_ok=True)
            replace_state(self._config, text.encode())
        # Before the start: the port must not be open to all for a moment.
        self._nftables().ensure([speaker(self._table, self._uplinks, self._state.sessions)])
        if not self._is_running():
            self._start(restarted=before is not None)
        elif before != text:
            ask(self._control, "configure")

    def _check(self) -> None:
        self._nftables().ensure([speaker(self._table, self._uplinks, self._state.sessions)])
        self._announce()
        if not self._is_running() and self._clock.monotonic() >= self._retry_at:
            _log.warning("BGP speaker ended, restarting")
            self._start(restarted=True)

    def _is_running(self) -> bool:
        return self._child is not None and self._child.poll() is None

    def _start(self, *, restarted: bool) -> None:
        self._end()
        self._retry_at = self._clock.monotonic() + _RETRY_SECONDS
        assert self.program is not None, "nothing is configured without a program"
        # The kernel kills it when the thread that forked it ends: the datapath's thread lives as long as the agent.
        # BIRD parses input of routers, so it has only the privileges that its sockets need.
        command = ["setpriv", "--pdeathsig", "KILL", "--no-new-privs", "--inh-caps", "-all"]
        command += ["--bounding-set", _PRIVILEGES, str(self.program), "-f", *(["-R"] if restarted else [])]
        self._child = subprocess.Popen(
            [*command, *self._words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # signals to the agent's process group must not reach it
        )
        self._pid.write_text(str(self._child.pid))
        with suppress(OSError):  # without the right to do so, or ended already
            Path(f"/proc/{self._child.pid}/oom_score_adj").write_text(_OOM_SCORE)
            os.setpriority(os.PRIO_PROCESS, self._child.pid, _NICE)

    def _end(self) -> None:
        """Kill it, also that of an earlier agent: a SIGTERM would make routers forget routes that are still right."""
        if self._child is not None:
            self._child.kill()
            self._child.wait(_TIMEOUT)
            self._child = None
        if self._config.exists():
            DetachedProgram(self._words, self._pid).end()

    def _withdraw(self, kept: frozenset[str]) -> None:
        prefixes = {host_prefix(each) for each in kept}
        present = [each for each in routes(self._sockets(), (TABLE,)) if each.prefix not in prefixes]
        self._sockets().request([no_route(each) for each in present])

    def _announce(self) -> None:
        wanted = {Route(host_prefix(each), table=TABLE) for each in self._addresses}
        present = set(routes(self._sockets(), (TABLE,)))
        self._sockets().request([no_route(each) for each in sorted(present - wanted)])
        self._sockets().request([route(each) for each in sorted(wanted - present)])

    def _sockets(self) -> Netlink:
        self._netlink = self._netlink or Netlink()
        return self._netlink

    def _nftables(self) -> Nftables:
        self._rules = self._rules or Nftables()
        return self._rules


def ask(control: Path, command: str) -> list[str]:
    """Return what BIRD answers to a command. Raises OSError."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(_TIMEOUT)
        asking.connect(str(control))
        with asking.makefile("r", errors="replace") as answer:
            answer.readline()  # a greeting
            asking.sendall(f"{command}\n".encode())
            lines: list[str] = []
            for line in answer:
                code, text = (line[:4], line[5:]) if line[:4].isdigit() else ("", line[1:])
                if code >= _ERRORS:
                    raise OSError(f"bird: {text.strip()}")
                lines.append(text.rstrip("\n"))
                # A hyphen after the code announces another line.
                if code and line[4:5] == " ":
                    return lines
    raise OSError("bird: the control socket was closed before the answer ended")
