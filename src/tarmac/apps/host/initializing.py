"""`tarmac init`: makes this host the first server of a cluster and, with a Location, its first node.

checks → configuration → keys → (etcd) → server → (location → the steps of `join`)

As with `join`, nothing is created before all checks have passed, each step creates only missing parts, and a repeated
command continues where a killed one stopped.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

from tarmac.api.networking.cities import location_of
from tarmac.api.status import AlreadyExists, ApiError
from tarmac.apps.commands import parsed
from tarmac.apps.configcheck import taken
from tarmac.apps.host.checks import Obstacle, local_obstacles
from tarmac.apps.host.configuration import documents_in, have_document
from tarmac.apps.host.etcdcluster import start_first_member
from tarmac.apps.host.etcdmember import etcd_obstacles, member_file, place_of, store_url
from tarmac.apps.host.hostlayout import DONE, Machine, SetupFailed, print_progress, setting_up
from tarmac.apps.host.hostservices import Services, Signals, running, services
from tarmac.apps.host.joining import Blocked, Joining, join, run_step
from tarmac.apps.serverleases import reached_at
from tarmac.base.clock import Clock, SystemClock
from tarmac.base.log import configure
from tarmac.base.randomness import Randomness
from tarmac.cli.verbs.tokens import create_token
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.client.http import HttpTransport
from tarmac.client.kubeconfig import load
from tarmac.client.targets.untyped import LOCATIONS
from tarmac.http.authorities import key_hash
from tarmac.server.security.certificates.pki import Pki
from tarmac.server.security.keys.encryption import SecretSealer

KIND = "ServerConfig"
_TTL = 3600.0


def main(options: argparse.Namespace) -> int:
    """Become a server; return the exit code."""
    configure(level="warning")
    return asyncio.run(_main(Machine(), options))


async def _main(machine: Machine, options: argparse.Namespace) -> int:
    async with services(machine, foreground=options.foreground) as keeper, Signals() as signals:
        code = await run_step(lambda: _locked(machine, options, keeper))
        if code == DONE and options.foreground:
            await signals.wait()
        return code


async def _locked(machine: Machine, options: argparse.Namespace, keeper: Services) -> None:
    with setting_up(machine):
        await init(machine, options, keeper, SystemClock())


async def init(machine: Machine, options: argparse.Namespace, keeper: Services, clock: Clock) -> None:
    """Perform all remaining steps and print the next ones. Raises SetupFailed, Blocked."""
    print_progress("checks")
    if obstacles := list(_obstacles(machine, options)):
        raise Blocked(obstacles)
    before = (machine.data / "store.db").exists() or "store" in documents_in(machine.config).get(KIND, {})
    print_progress("configuration")
    name, address = options.name or socket.gethostname().lower(), next(iter(reached_at([options.listen[0]])), "")
    if options.with_etcd:
        options.store = store_url(machine, [address], machine.data / "pki" / "etcd.crt")
    for difference in have_document(machine.config, KIND, server_fields(machine, options)):
        print_progress(difference)
    server = parsed(["server", f"--config={machine.config}"])
    print_progress("keys")
    pki = Pki((server.pki_dir or machine.data / "pki").absolute(), clock)
    SecretSealer.from_file((server.encryption_key_file or machine.data / "secrets.key").absolute(), Randomness())
    ca = key_hash(pki.ca_file.read_bytes())
    if options.with_etcd or member_file(machine).exists():
        print_progress("etcd")
        await start_first_member(machine, pki, (name, address), keeper, clock, options.timeout)
    if before:
        print_progress(f"already initialized (CA sha256:{ca})")
    print_progress("server")
    if not (running(machine, "server") and await _is_ready(machine)):
        await keeper.start("server")
    if not keeper.supervised:
        print(f"run it, and it is a server; the administrator's kubeconfig is {machine.data / 'kubeconfig'}")
        return
    await await_server(machine, keeper, clock, options.timeout)
    await _with_node(machine, options, server, keeper, clock)


def _obstacles(machine: Machine, options: argparse.Namespace) -> Iterator[Obstacle]:
    if (machine.data / "up.lock").exists():
        yield Obstacle("data", f"{machine.data} was made by tarmac up; tarmac down removes it")
    if not running(machine, "server") and (why := taken(*options.listen)):
        yield Obstacle("port", f"{why}; stop the process that listens there, or pass another address with --listen")
    if options.with_etcd and options.store:
        yield Obstacle("store", "--with-etcd makes a store, and --store names another; give one of them")
    if options.with_etcd and (machine.data / "store.db").exists():
        why = f"the store is in SQLite, {machine.data / 'store.db'}; leave --with-etcd out, or start with an empty host"
        yield Obstacle("data", why)
    elif options.with_etcd:
        yield from etcd_obstacles(machine, reached_at([options.listen[0]]))
    if options.location:
        yield from local_obstacles(machine, running=bool(running(machine, "agent")))
    elif os.geteuid() != 0:
        yield Obstacle("root", f"this needs root, for {machine.config} and {machine.data}; run it as root")


def server_fields(machine: Machine, options: argparse.Namespace) -> dict[str, Any]:
    """Return the configuration of a server with these flags."""
    host, port = options.listen
    fields: dict[str, Any] = {
        "dataDir": str(machine.data),
        "listen": place_of(host, port),
    }
    if options.tls_san:
        fields["tlsSan"] = list(options.tls_san)
    if options.store:
        fields["store"] = options.store
    return fields


async def _is_ready(machine: Machine) -> bool:
    """Return True if this host's own server is ready. Other servers in its kubeconfig do not count."""
    with suppress(ApiError, ClientError, OSError):
        client = Client(HttpTransport(replace(load(str(machine.data / "kubeconfig")).http, servers=())))
        try:
            await client.call("GET", "/readyz", headers={"accept": "*/*"}, timeout=2.0)
        finally:
            await client.close()
        return True
    return False


async def await_server(machine: Machine, keeper: Services, clock: Clock, seconds: float) -> None:
    """Wait until the server is ready. Raises SetupFailed."""
    deadline = clock.monotonic() + seconds
    # A kubeconfig of an earlier start may name the same port: only a response counts.
    while not await _is_ready(machine):
        if clock.monotonic() > deadline:
            words = [f"server: {line}" for line in keeper.last_words("server")]
            raise SetupFailed("\n".join([f"the server is not ready after {seconds:.0f} s", *words]))
        await clock.sleep(0.2)


async def _with_node(
    machine: Machine, options: argparse.Namespace, server: argparse.Namespace, keeper: Services, clock: Clock
) -> None:
    admin = Client(HttpTransport(load(str(machine.data / "kubeconfig")).http))
    host, port = server.listen
    try:
        if options.location:
            print_progress("location")
            code = options.location.lower()
            with suppress(AlreadyExists):
                await admin.resource(LOCATIONS).create(location_of(code, code.upper(), "nodes"))
            token = await create_token(admin, code, 1, _TTL)
            here = "127.0.0.1" if host in ("0.0.0.0", "") else "[::1]" if host == "::" else host
            wanted = Joining([f"{here}:{port}"], token, options.name, timeout=options.timeout)
            await join(machine, wanted, keeper, clock)
        print(f"kubeconfig: {machine.data / 'kubeconfig'}")
        await print_next_host(admin, options, reached_at([host]), port)
        if member_file(machine).exists():
            await print_next_server(admin, reached_at([host]), port)
    finally:
        await admin.close()


async def print_next_server(admin: Client, hosts: list[str], port: int) -> None:
    """Print the command that joins the next server. Raises ApiError, ClientError."""
    token = (await create_token(admin, "", 1, _TTL)).text
    places = ",".join(place_of(each, port) for each in hosts[:1])
    print(f"join another server: echo {token} | tarmac join --server {places} --token-file -", flush=True)


async def print_next_host(admin: Client, options: argparse.Namespace, hosts: list[str], port: int) -> None:
    """Print the command that joins the next host."""
    if not hosts:
        print("no other machine reaches it: it listens on this machine's loopback only (--listen)", flush=True)
        return
    address = place_of(hosts[0], port)
    # The token goes through a pipe: `echo` is part of the shell, so no command line shows it to local users.
    command = f"tarmac join {address} --token-file -"
    if options.location:
        token = (await create_token(admin, options.location.lower(), 1, _TTL)).text
        print(f"join another machine: echo {token} | {command}", flush=True)
    else:
        print(f"join another machine: tarmac token create --location CODE | ssh MACHINE {command}", flush=True)
