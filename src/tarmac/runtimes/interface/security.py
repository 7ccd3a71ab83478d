"""Identity and privileges of processes, for a sandbox and for each container in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True, slots=True)
class LinuxSecurity:
    """Identity and privileges of a process. None and empty mean the runtime's default."""

    user: int | None = None
    username: str = ""
    group: int | None = None
    supplemental_groups: tuple[int, ...] = ()
    strict_groups: bool = False  # only these groups, without those of the image
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
    target_container: str = ""  # joins its process namespace (debugging)


BY_DEFAULT: Final = LinuxSecurity()
"""All defaults of the runtime."""
