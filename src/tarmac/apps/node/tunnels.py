"""The programs that encrypt tunnels between cities, where they are on this machine."""

from __future__ import annotations

from tarmac.datapath.linux.external.wireguard import WireGuardPrograms
from tarmac.runtimes.parts import optional_program


def wireguard_programs() -> WireGuardPrograms:
    """Those that there are; a node without them works, and says that it cannot encrypt."""
    return WireGuardPrograms(optional_program("wg"), optional_program("wireguard-go"))
