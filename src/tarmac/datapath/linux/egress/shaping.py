"""Bandwidth limits per address: one HTB class each, selected by the packet's mark.

Packets above the rate wait in a queue of their own, so that senders slow down. Egress is limited where packets leave
for the outside, ingress where they leave for other nodes.

A rate is one of IP packets. HTB counts the link header as well, so classes are that much faster.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tarmac.datapath.linux import namespaces
from tarmac.datapath.linux.tables.gateway import MAJOR

_SECONDS: Final = 10
_FRAME: Final = 1514 / 1500  # a full packet with the link's header, and without

_BURST: Final = 0.01
"""Seconds of the rate that may be sent at once after a pause.

A class that is due is served when a processor gets to it. Its unused share beyond the burst is lost, and the default
burst holds a single packet.
"""
_MIN_BURST: Final = 16_000

_QUEUE: Final = 0.2
"""Seconds of the rate that may wait.

Without such a limit a class holds 1,000 packets, which delay a slow rate for so long that senders treat them as lost.
"""
_MIN_QUEUE: Final = 80_000  # more than one packet of the largest size that senders leave to links to segment


def _class(link: str, mark: int, rate: int) -> tuple[str, str]:
    """Return the commands that create or change a class and its queue."""
    own, raw = f"{MAJOR}:{mark:x}", round(rate * _FRAME)
    burst, queue = max(round(rate / 8 * _BURST), _MIN_BURST), max(round(rate / 8 * _QUEUE), _MIN_QUEUE)
    lasting = f"rate {raw}bit ceil {raw}bit burst {burst}b cburst {burst}b"
    return (
        f"class replace dev {link} parent {MAJOR}: classid {own} htb {lasting}",
        f"qdisc replace dev {link} parent {own} bfifo limit {queue}",
    )


class Shaper:
    """The classes of one namespace's links, as far as this process has created them."""

    def __init__(self, namespace: Path) -> None:
        self._namespace = namespace
        self._made: dict[str, Mapping[int, int]] = {}

    def ensure(self, links: Mapping[str, Mapping[int, int]]) -> None:
        """Set rates on each of these links, in bits per second by mark. Raises OSError."""
        commands: list[str] = []
        for link, rates in links.items():
            known = self._made.get(link, {})
            if rates and not known:
                commands.append(f"qdisc add dev {link} root handle {MAJOR}: htb")  # it may exist from another process
            for mark, rate in rates.items():
                if known.get(mark) != rate:
                    commands += _class(link, mark, rate)
            commands += [f"class del dev {link} classid {MAJOR}:{mark:x}" for mark in known.keys() - rates.keys()]
        if commands:
            self._run(commands)
        self._made = {link: dict(rates) for link, rates in links.items()}

    def _run(self, commands: list[str]) -> None:
        with namespaces.inside(self._namespace):
            done = subprocess.run(
                # `-force`: an object that exists already must not stop the commands after it.
                ["tc", "-force", "-batch", "-"],
                check=False,
                input="\n".join(commands) + "\n",
                capture_output=True,
                text=True,
                timeout=_SECONDS,
            )
        errors = [line for line in done.stderr.splitlines() if line.startswith(("Error", "RTNETLINK"))]
        faults = [line for line in errors if "Exclusivity" not in line and "File exists" not in line]
        if faults:
            # Unknown after a failure: the next call sends everything again.
            self._made.clear()
            raise OSError(f"tc: {faults[0]}")
