"""Routers outside: BIRD in a network namespace, with sessions to nodes and their routes in the kernel."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tarmac.datapath.linux.ingress.speaker import ask
from tarmac.runtimes.parts import PartMissing, find_program

ROUTER_ASN, NODE_ASN = 65001, 65010
_PATIENT = 30.0  # a session that fails at first is tried again after some seconds


def find_bird() -> Path:
    try:
        return find_program("bird")
    except PartMissing as missing:
        pytest.fail(f"nothing can be announced by BGP in this test: {missing} (python -m tools.node_parts)")


class Router:
    """A router at `own`, with a session to each of `nodes` (by name). `told` is what it announces to them."""

    def __init__(
        self,
        namespace: Path,
        folder: Path,
        own: str,
        nodes: Mapping[str, str],
        *,
        password: str = "",
        restart: int = 60,
        told: str = "",
        asn: int = ROUTER_ASN,
        checks_ttl: bool = True,
        bfd: bool = False,
    ) -> None:
        self._namespace, self.own, self._nodes = namespace, own, nodes
        self._config, self.control = folder / f"router-{asn}.conf", folder / f"router-{asn}.ctl"
        self._password, self._restart, self._told, self._asn = password, restart, told, asn
        self._checks_ttl, self._bfd = checks_ttl, bfd
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._config.write_text(self._text())
        command = ["nsenter", f"--net={self._namespace}", str(find_bird()), "-f"]
        command += ["-c", str(self._config), "-s", str(self.control)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def change(self, *, told: str) -> None:
        """Announce something else to the nodes."""
        self._told = told
        self._config.write_text(self._text())
        ask(self.control, "configure")

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(10)
            self._process = None
        for path in (self._config, self.control):
            path.unlink(missing_ok=True)

    def next_hops(self, address: str) -> set[str]:
        """Return the nodes that the router sends packets for an address to, by their addresses there."""
        family, length = ("-6", 128) if ":" in address else ("-4", 32)
        command = ["nsenter", f"--net={self._namespace}", "ip", family, "route", "show", f"{address}/{length}"]
        command += ["proto", "bird"]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        return {said[at + 1] for at, word in enumerate(said) if word == "via"}

    def routes(self, node: str) -> str:
        """Return the routes that a node has announced to it, with their attributes."""
        return "\n".join(ask(self.control, f"show route protocol {node} all"))

    def established(self) -> set[str]:
        """Return the nodes with a session."""
        lines = (line.split() for line in ask(self.control, "show protocols"))
        return {words[0] for words in lines if words[0:1] and words[0] in self._nodes and "Established" in words}

    def _text(self) -> str:
        sessions = "".join(self._session(name, each) for name, each in self._nodes.items())
        return f"""\
router id {self.own if ":" not in self.own else "10.255.255.255"};
log stderr all;
protocol device {{ scan time 1; }}
{"protocol bfd { }" if self._bfd else ""}
protocol kernel {{ merge paths on; ipv4 {{ export where source = RTS_BGP; }}; }}
protocol kernel {{ merge paths on; ipv6 {{ export where source = RTS_BGP; }}; }}
{self._static(4)}
{self._static(6)}
{sessions}"""

    def _static(self, family: int) -> str:
        mine = [each for each in self._told.split() if (":" in each) == (family == 6)]
        routes = "".join(f"route {each} unreachable; " for each in mine)
        return f"protocol static told{family} {{ ipv{family}; {routes}}}"

    def _session(self, name: str, address: str) -> str:
        password = f'password "{self._password}"; ' if self._password else ""
        ttl = "on" if self._checks_ttl else "off"
        bfd = "bfd { interval 300 ms; multiplier 3; };" if self._bfd else ""
        graceful = f"graceful restart on; graceful restart time {self._restart};" if self._restart else ""
        return f"""\
protocol bgp {name} {{
    local {self.own} as {self._asn}; neighbor {address} as {NODE_ASN}; direct; ttl security {ttl};
    hold time 9; connect delay time 1; connect retry time 1; error wait time 1, 2; {password}{graceful}{bfd}
    ipv4 {{ import all; export where source = RTS_STATIC; next hop self; }};
    ipv6 {{ import all; export where source = RTS_STATIC; next hop self; }};
}}
"""


@contextmanager
def routing(router: Router) -> Generator[Router]:
    """Run a router until the block ends."""
    router.start()
    try:
        yield router
    finally:
        router.stop()


async def until(condition: Callable[[], bool], what: str, seconds: float = _PATIENT) -> None:
    """Wait for a state. A router that is not up yet has none."""
    try:
        async with asyncio.timeout(seconds):
            while not _holds(condition):
                await asyncio.sleep(0.02)
    except TimeoutError:
        pytest.fail(f"waited {seconds:g} s in vain: {what}")


def _holds(condition: Callable[[], bool]) -> bool:
    try:
        return condition()
    except (FileNotFoundError, ConnectionError):
        return False


def is_alive(process: int) -> bool:
    """Return True if a process exists and has not ended."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except FileNotFoundError:
        return False


def kill(process: int) -> None:
    """End a process at once, if it is still there."""
    try:
        os.kill(process, 9)
    except ProcessLookupError:
        return
