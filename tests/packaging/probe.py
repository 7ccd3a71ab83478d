"""Tries the attacks of a compromised service, and prints the results: {attempt: true if it succeeded}.

Runs under a unit of the package, in place of its program, with the standard library only.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)
_MS_BIND, _CLONE_NEWUSER, _CLONE_NEWNET = 0x1000, 0x10000000, 0x40000000
_SETTIMEOFDAY, _INIT_MODULE, _REBOOT, _SWAPON, _IOPL, _PTRACE = 164, 175, 169, 167, 172, 101
_PERSONALITY, _KEXEC = 135, 246


def call(number: int, *arguments: object) -> None:
    """Make a system call of x86-64 with harmless arguments. Every result but a refusal means that it was allowed."""
    _libc.syscall.restype = ctypes.c_long
    if _libc.syscall(ctypes.c_long(number), *arguments) < 0 and ctypes.get_errno() in (1, 13):
        raise PermissionError(ctypes.get_errno(), "refused")


def checked(result: int) -> None:
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")


def write(path: str) -> None:
    file = Path(path) / "tarmac-was-here"
    file.write_text("")
    file.unlink()


def read_memory_of_first() -> None:
    Path("/proc/1/environ").read_bytes()


def connect(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.connect(path)


def special(path: Path) -> None:
    path.write_text("")
    try:
        path.chmod(0o4755)
    finally:
        path.unlink()


def executable_memory() -> None:
    _libc.mmap.restype = ctypes.c_void_p
    found = _libc.mmap(None, ctypes.c_size_t(4096), 7, 0x22, -1, ctypes.c_long(0))
    if found == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), "refused")


def tunable() -> None:
    file = Path("/proc/sys/net/ipv4/ip_default_ttl")
    file.write_text(file.read_text())


ATTEMPTS: dict[str, Callable[[], object]] = {
    "write /usr": lambda: write("/usr"),
    "write /etc": lambda: write("/etc"),
    "write /var": lambda: write("/var"),
    "write /run": lambda: write("/run"),
    "speak to systemd": lambda: connect("/run/systemd/private"),
    "read /root": lambda: os.listdir("/root") and (Path("/root") / "secret").read_text(),
    "read another user's file": lambda: Path("/var/tmp/private").read_text(),
    "read a disk": lambda: os.open("/dev/mem", os.O_RDONLY) or os.open("/dev/kmsg", os.O_RDONLY),
    "read the environment of process 1": read_memory_of_first,
    "change a kernel parameter": tunable,
    "mount": lambda: checked(_libc.mount(b"/usr", b"/mnt", None, _MS_BIND, None)),
    "make a user namespace": lambda: checked(_libc.unshare(_CLONE_NEWUSER)),
    "make a network namespace": lambda: checked(_libc.unshare(_CLONE_NEWNET)),
    "become another user": lambda: os.setresuid(1234, 1234, 0),
    "make a setuid program": lambda: special(Path("/var/lib/tarmac/special")),
    "map writable code": executable_memory,
    "capture packets": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW),
    "speak netlink": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW),
    "speak to the hypervisor": lambda: socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM),
    "set the clock": lambda: call(_SETTIMEOFDAY, None, None),
    "load a module": lambda: call(_INIT_MODULE, None, 0, b""),
    "load a kernel": lambda: call(_KEXEC, 0, 0, None, 0x7000),
    "reboot": lambda: call(_REBOOT, 0, 0, 0, None),
    "swap": lambda: call(_SWAPON, b"/none", 0),
    "use ports of hardware": lambda: call(_IOPL, 0),
    "trace a process": lambda: call(_PTRACE, 0, 0, None, None),
    "change the execution domain": lambda: call(_PERSONALITY, 0x0040000),
    # Rights that the service needs.
    "write its data": lambda: write("/var/lib/tarmac"),
    "listen": lambda: socket.create_server(("127.0.0.1", 999)),
    "listen on a socket": lambda: socket.socket(socket.AF_UNIX),
}


def succeeds(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except OSError:
        return False
    return True


def main() -> None:
    # Each in a process of its own: a change of the process must not affect the next attempt.
    found: dict[str, bool] = {}
    for name, attempt in ATTEMPTS.items():
        child = os.fork()
        if child == 0:
            os._exit(0 if succeeds(attempt) else 1)
        found[name] = os.waitpid(child, 0)[1] == 0
    Path("/var/lib/tarmac/probe.json").write_text(json.dumps(found))


if __name__ == "__main__":
    sys.exit(main())
