"""Who a process is and what it may, of a sandbox and of each container in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True, slots=True)
class LinuxSecurity:
    """Who a process is and what it may. None and empty mean the runtime's default."""

    user: int | None = None
    username: str = ""
    group: int | None = None
    supplemental_groups: tuple[int, ...] = ()
    strict_groups: bool = False  # these, and none that the image adds
    privileged: bool = False
    read_only_root: bool = False
    no_new_privileges: bool = False
    add_capabilities: tuple[str, ...] = ()
    drop_capabilities: tuple[str, ...] = ()
    seccomp: Literal["RuntimeDefault", "Unconfined", "Localhost"] = "Unconfined"
    seccomp_path: str = ""
    masked_paths: tuple[str, ...] = ()  # exactly these: runtimes add none
    read_only_paths: tuple[str, ...] = ()
    host_network: bool = False
    host_pid: bool = False
    host_ipc: bool = False
    share_processes: bool = False
    target_container: str = ""  # its process namespace is joined (debugging)


BY_DEFAULT: Final = LinuxSecurity()
"""Everything as the runtime would have it."""
