"""How fast an address may speak and be spoken to: a class of HTB for each, chosen by what rules say of a packet.

What waits is sent later, nothing is lost, so that senders slow down. Out is counted where packets leave for the
outside, in where they leave for other nodes.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tarmac.datapath.linux import namespaces
from tarmac.datapath.linux.tables.gateway import MAJOR

_SECONDS: Final = 10


class Shaper:
    """The classes of one namespace's links, as far as this process has made them."""

    def __init__(self, namespace: Path) -> None:
        self._namespace = namespace
        self._made: dict[str, Mapping[int, int]] = {}

    def ensure(self, links: Mapping[str, Mapping[int, int]]) -> None:
        """Have on each of these links such rates, in bits per second by mark. Raises OSError."""
        commands: list[str] = []
        for link, rates in links.items():
            known = self._made.get(link, {})
            if rates and not known:
                commands.append(
                    f"qdisc add dev {link} root handle {MAJOR}: htb"
                )  # it may be there from another process
            commands += [
                f"class replace dev {link} parent {MAJOR}: classid {MAJOR}:{mark:x} htb rate {rate}bit ceil {rate}bit"
                for mark, rate in rates.items()
                if known.get(mark) != rate
            ]
            commands += [f"class del dev {link} classid {MAJOR}:{mark:x}" for mark in known.keys() - rates.keys()]
        if commands:
            self._run(commands)
        self._made = {link: dict(rates) for link, rates in links.items()}

    def _run(self, commands: list[str]) -> None:
        with namespaces.inside(self._namespace):
            done = subprocess.run(
                ["tc", "-force", "-batch", "-"],
                check=False,
                input="\n".join(commands) + "\n",
                capture_output=True,
                text=True,
                timeout=_SECONDS,
            )
        said = [line for line in done.stderr.splitlines() if line.startswith(("Error", "RTNETLINK"))]
        faults = [line for line in said if "Exclusivity" not in line and "File exists" not in line]
        if faults:
            self._made.clear()
            raise OSError(f"tc: {faults[0]}")
