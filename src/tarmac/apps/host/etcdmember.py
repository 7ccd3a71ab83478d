"""The member of etcd on a server's host: its program, its certificates and its command line.

`tarmac etcd run` becomes the program, so the supervisor of the command is that of the program. Members and servers
trust one authority, which signs nothing else (`Pki.etcd_authority`).
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from tarmac.apps.host.checks import Obstacle, existing
from tarmac.apps.host.hostlayout import Machine, SetupFailed
from tarmac.apps.host.hostservices import running
from tarmac.base.clock import Clock
from tarmac.base.stderr import print_error
from tarmac.runtimes.parts import PartMissing, parts_folder
from tarmac.server.security.certificates.issuing import KeyPair
from tarmac.server.security.certificates.pki import Pki
from tarmac.server.security.keys.privatefiles import write_private

CLIENT_PORT: Final = 2379
PEER_PORT: Final = 2380
MIN_VERSION: Final = (3, 5, 13)
"""Earlier ones report progress that they have not made (`store/etcd/driver.py`)."""
_MAX_DATA_BYTES: Final = 8 << 30  # etcd's own suggestion for the largest; its default is a quarter of it
_MIN_FREE_BYTES: Final = 1 << 30  # etcd fails to start without room for its log, and stops when there is none left
_VERSION = re.compile(r"etcd Version: (\d+)\.(\d+)\.(\d+)")
_MISSING = (
    "there is no etcd {wanted} or later here{found}; install the package tarmac-etcd, which has the tested one, or "
    "give the members of your own with --store"
)


class OwnMember(msgspec.Struct):
    """The member that this host runs, as it was first started: afterwards, its data decides about the cluster."""

    name: str
    address: str
    cluster: str
    """NAME=URL,NAME=URL of all members."""
    is_new: bool
    """True for the first member of a cluster."""
    authority: str
    """The file of the authority's certificate."""


def find_etcd() -> Path:
    """Find the program of the package tarmac-etcd, else one on the PATH. Raises PartMissing."""
    found = ""
    for each in (str(parts_folder() / "bin" / "etcd"), shutil.which("etcd") or ""):
        version = _version_of(each) if os.access(each, os.X_OK) else None
        if version is not None and version >= MIN_VERSION:
            return Path(each)
        if version is not None:
            found = f" ({each} is {'.'.join(map(str, version))})"
    raise PartMissing(_MISSING.format(wanted=".".join(map(str, MIN_VERSION)), found=found))


def etcd_obstacles(machine: Machine, hosts: list[str]) -> Iterator[Obstacle]:
    """Yield the obstacles to a member on this host; `hosts` are the addresses by which other hosts reach it."""
    try:
        find_etcd()
    except PartMissing as missing:
        yield Obstacle("etcd", str(missing))
    if not hosts:
        yield Obstacle("etcd", "no other host reaches this one: pass an address of it with --listen")
    elif not running(machine, "etcd"):
        free = shutil.disk_usage(existing(machine.data)).free
        if free < _MIN_FREE_BYTES:
            needed = f"{_MIN_FREE_BYTES >> 30} GiB is needed for etcd"
            yield Obstacle("disk", f"{free >> 20} MiB are free below {machine.data}; {needed}: free space there")
        yield from filter(None, (_taken(hosts[0], port) for port in (CLIENT_PORT, PEER_PORT)))


def member_file(machine: Machine) -> Path:
    """Return the file that describes the member of this host; it exists where there is one."""
    return machine.etcd / "member.json"


def read_member(machine: Machine) -> OwnMember | None:
    """Return the member of this host. Raises SetupFailed, OSError."""
    file = member_file(machine)
    try:
        return msgspec.json.decode(file.read_bytes(), type=OwnMember)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as error:
        raise SetupFailed(f"{file}: {error}; restore the file, or replace the member from another server") from error


def write_member(machine: Machine, member: OwnMember, pki: Pki, clock: Clock) -> None:
    """Store the member, after its certificates: where the file exists, they do. Raises OSError."""
    machine.etcd.mkdir(mode=0o700, parents=True, exist_ok=True)
    authority, now = pki.etcd_authority(), clock.now()
    _write_pair(machine, "member", authority.issue_member(member.name, (member.address,), now))
    # Without names: etcd compares those of a client with the address that it dials from, which may be any of the host.
    _write_pair(machine, "client", authority.issue_member("tarmac-server", (), now))
    write_private(member_file(machine), msgspec.json.encode(member))


def store_url(machine: Machine, addresses: list[str], authority: Path) -> str:
    """Return the URL of the store for the server beside this member; the own address comes first."""
    places = ",".join(place_of(each, CLIENT_PORT) for each in dict.fromkeys(addresses))
    files = f"cert={machine.etcd / 'client.crt'}&key={machine.etcd / 'client.key'}"
    return f"etcd://{places}?cacert={authority}&{files}&members={machine.etcd / 'members'}"


def place_of(address: str, port: int) -> str:
    """Return HOST:PORT."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def peer_url(address: str) -> str:
    """Return the URL by which the other members reach the member at this address."""
    return f"https://{place_of(address, PEER_PORT)}"


def etcd_arguments(machine: Machine, member: OwnMember) -> list[str]:
    """Return the command line of the member, without the program."""
    peers, clients = peer_url(member.address), f"https://{place_of(member.address, CLIENT_PORT)}"
    own, trusted = machine.etcd / "member", member.authority
    return [
        f"--name={member.name}", f"--data-dir={machine.etcd_data}",
        f"--listen-peer-urls={peers}", f"--initial-advertise-peer-urls={peers}",
        f"--listen-client-urls={clients}", f"--advertise-client-urls={clients}",
        f"--initial-cluster={member.cluster}", f"--initial-cluster-state={'new' if member.is_new else 'existing'}",
        f"--cert-file={own}.crt", f"--key-file={own}.key", f"--trusted-ca-file={trusted}", "--client-cert-auth",
        f"--peer-cert-file={own}.crt", f"--peer-key-file={own}.key", f"--peer-trusted-ca-file={trusted}",
        "--peer-client-cert-auth", f"--quota-backend-bytes={_MAX_DATA_BYTES}", "--logger=zap", "--log-level=warn",
    ]  # fmt: skip


def main(options: argparse.Namespace) -> int:
    """Become the member of this host; returns only on failure."""
    machine = Machine(data=options.data_dir)
    try:
        member = read_member(machine)
        if member is None:
            print_error(f"{member_file(machine)}: this host has no member; tarmac init --with-etcd makes the first one")
            return 1
        program = find_etcd()
        os.execv(program, [str(program), *etcd_arguments(machine, member)])
    except (PartMissing, SetupFailed, OSError) as error:
        print_error(error)
    return 1


def _write_pair(machine: Machine, name: str, pair: KeyPair) -> None:
    write_private(machine.etcd / f"{name}.crt", pair.certificate)
    write_private(machine.etcd / f"{name}.key", pair.key)


def _version_of(program: str) -> tuple[int, ...] | None:
    try:
        result = subprocess.run([program, "--version"], check=False, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(result.stdout)
    return tuple(map(int, found.groups())) if found else None


def _taken(address: str, port: int) -> Obstacle | None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            why = f"{place_of(address, port)} cannot be bound ({error.strerror}); stop the etcd that runs there"
            return Obstacle("etcd", why)
    return None
