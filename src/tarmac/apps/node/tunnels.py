"""Locates the programs that encrypt tunnels between cities."""

from __future__ import annotations

from tarmac.datapath.linux.egress.wireguard import WireGuardPrograms
from tarmac.runtimes.parts import optional_program


def wireguard_programs() -> WireGuardPrograms:
    """Return the installed programs; a node without them works, and reports that it cannot encrypt."""
    return WireGuardPrograms(optional_program("wg"), optional_program("wireguard-go"))
