"""The programs that encrypt between the cities of a planet: one for each node, found by its link."""

from __future__ import annotations

from pathlib import Path

from tarmac.apps.processes import find_processes
from tarmac.datapath.linux.naming import encrypted_link
from tests.egress.planet import Outside
from tests.node.planet import command_of


def links(outside: Outside) -> dict[str, str]:
    """Return the links by the name of their node."""
    return {node: encrypted_link(str(_run_dir(outside, node))) for node in outside.cities}


def sockets(outside: Outside) -> dict[str, Path]:
    """Return the control socket of each node's program."""
    return {node: Path("/var/run/wireguard") / f"{link}.sock" for node, link in links(outside).items()}


def encrypting(outside: Outside, node: str) -> int:
    """Return the process that encrypts for a node."""
    return int((_run_dir(outside, node) / "wireguard.pid").read_text())


def _run_dir(outside: Outside, node: str) -> Path:
    return outside.underlay.run / node.removesuffix("-0") / "agent"


def wireguard_processes() -> dict[int, str]:
    """Return the processes of all planets on this machine, with their links."""
    found = find_processes(lambda words: words[0].endswith("wireguard-go") and words[1:2] == ["-f"])
    return {pid: command_of(pid).rstrip("\0").rpartition("\0")[2] for pid in found}
