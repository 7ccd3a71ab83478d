"""`tarmac join --server`: makes this host an additional server of a cluster with a shared store.

checks → hand-over → keys → configuration → (etcd) → server → ready

Where the cluster has an etcd that Tarmac runs, the host gets a member of it first.

A server of the cluster hands over its keys, sealed for a key that is generated here first and never leaves. If the
command is killed before they are stored, it can ask again with the same key for ten minutes; later it needs a new
token. Keys are stored before the configuration is written, and the configuration before anything starts, so no server
runs with incomplete keys.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import binascii
import os
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from tarmac import __version__
from tarmac.api.nodetokens import SERVERS_PATH, BadToken, NodeToken
from tarmac.api.status import ApiError, Unauthorized
from tarmac.apps.configcheck import taken
from tarmac.apps.host.checks import Obstacle
from tarmac.apps.host.configuration import documents_in, have_document
from tarmac.apps.host.etcdcluster import add_member, etcd_client
from tarmac.apps.host.etcdmember import etcd_obstacles, store_url
from tarmac.apps.host.hostlayout import DONE, USAGE, Machine, SetupFailed, print_progress, setting_up
from tarmac.apps.host.hostservices import Services, Signals, running, services
from tarmac.apps.host.identity import authorities_of_node, authorities_of_server, mark_beside_server
from tarmac.apps.host.initializing import KIND, await_server, print_next_server, server_fields
from tarmac.apps.host.joining import KIND as AGENT
from tarmac.apps.host.joining import reached, run_step
from tarmac.apps.host.serverdiscovery import FoundServer
from tarmac.apps.host.tokens import joining_token
from tarmac.apps.serverleases import reached_at
from tarmac.base.clock import Clock, SystemClock
from tarmac.base.log import configure
from tarmac.base.stderr import print_error
from tarmac.client.client import Client
from tarmac.client.http import HttpConfig, HttpTransport
from tarmac.client.kubeconfig import load
from tarmac.decide.quorum import SAFE_COUNT, spare_text
from tarmac.http.authorities import key_hashes
from tarmac.server.security.certificates.pki import Pki
from tarmac.server.security.keys.handover import BadSeal, Purpose, Sealed, unseal
from tarmac.server.security.keys.privatefiles import write_private
from tarmac.store.open import etcd_endpoints, follows_members, with_files

_FILE_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,63}", re.ASCII)
_LAST = "ca.key"  # its presence means that the keys are complete


@dataclass(frozen=True)
class ServerJoining:
    """The parameters of the join."""

    addresses: list[str]
    token: NodeToken
    name: str
    options: argparse.Namespace  # listen, tls_san, timeout


def main(options: argparse.Namespace) -> int:
    """Join as a server; return the exit code."""
    try:
        token = joining_token(options)
    except BadToken as error:
        print_error(error)
        return USAGE
    configure(level="warning")
    wanted = ServerJoining(options.server, token, options.name or socket.gethostname().lower(), options)
    return asyncio.run(_main(Machine(), wanted))


async def _main(machine: Machine, wanted: ServerJoining) -> int:
    foreground = wanted.options.foreground
    async with services(machine, foreground=foreground) as keeper, Signals() as signals:
        code = await run_step(lambda: _locked(machine, wanted, keeper))
        if code == DONE and foreground:
            await signals.wait()
        return code


async def _locked(machine: Machine, wanted: ServerJoining, keeper: Services) -> None:
    with setting_up(machine):
        await join_server(machine, wanted, keeper, SystemClock())


async def join_server(machine: Machine, wanted: ServerJoining, keeper: Services, clock: Clock) -> None:
    """Perform all remaining steps. Raises SetupFailed, Blocked."""
    print_progress("checks")
    found = await _checked(machine, wanted, clock)
    if not _has_keys(machine, wanted.token.ca_hash) or KIND not in documents_in(machine.config):
        content = await _asked(machine, found, wanted, clock)
        print_progress("keys")
        wanted.options.store = _own_store(machine, wanted, store_keys(machine, content, wanted.token.ca_hash))
        print_progress("configuration")
        for difference in have_document(machine.config, KIND, server_fields(machine, wanted.options)):
            print_progress(difference)
    else:
        print_progress(f"this machine has the keys of cluster sha256:{wanted.token.ca_hash} already")
    # Not earlier: a command killed before this point asks again, and needs the key to open the response.
    _key_file(machine).unlink(missing_ok=True)
    await _with_member(machine, wanted, keeper, clock)
    print_progress("server")
    await keeper.start("server")
    if not keeper.supervised:
        print(f"{wanted.name} may serve: run the command above", flush=True)
        return
    print_progress("ready")
    await await_server(machine, keeper, clock, wanted.options.timeout)
    node = documents_in(machine.config).get(AGENT, {}).get("nodeName")
    if node and wanted.token.ca_hash in authorities_of_node(machine):  # the host is already a node of this cluster
        await mark_beside_server(machine, node)
    print(f"joined as server {wanted.name}; kubeconfig: {machine.data / 'kubeconfig'}", flush=True)
    if follows_members(_stated_store(machine)):
        await _print_next_steps(machine, wanted, clock)


def _stated_store(machine: Machine) -> str:
    return documents_in(machine.config)[KIND]["store"]


def _own_store(machine: Machine, wanted: ServerJoining, url: str) -> str:
    """Return the URL of the store: with an etcd that Tarmac runs, that of the member here before the other members."""
    if not follows_members(url):
        return url
    own = reached_at([wanted.options.listen[0]])[:1]
    others = [each.rpartition(":")[0].strip("[]") for each in etcd_endpoints(url)]
    return store_url(machine, [*own, *others], machine.data / "pki" / "etcd.crt")


async def _with_member(machine: Machine, wanted: ServerJoining, keeper: Services, clock: Clock) -> None:
    """Bring a member of etcd to this host, where the cluster's etcd is one that Tarmac runs. Raises SetupFailed."""
    url, own = _stated_store(machine), reached_at([wanted.options.listen[0]])
    if not follows_members(url):
        return
    print_progress("etcd")
    if obstacles := list(etcd_obstacles(machine, own)):
        raise SetupFailed("\n".join(f"{each.check}: {each.text}" for each in obstacles))
    pki = Pki(machine.data / "pki", clock)
    await add_member(machine, pki, (wanted.name, own[0]), url, keeper, clock, wanted.options.timeout)


async def _print_next_steps(machine: Machine, wanted: ServerJoining, clock: Clock) -> None:
    """Print the losses that etcd survives, and the command for the next server until one may be lost."""
    async with etcd_client(_stated_store(machine), clock) as client:
        voters = {each.name: True for each in await client.members() if not each.is_learner}
    print(f"etcd: {spare_text(voters)}", flush=True)
    if len(voters) >= SAFE_COUNT:
        print("add a site: tarmac location create CODE", flush=True)
        return
    admin = Client(HttpTransport(load(str(machine.data / "kubeconfig")).http))
    try:
        host, port = wanted.options.listen
        await print_next_server(admin, reached_at([host]), port)
    finally:
        await admin.close()


async def _checked(machine: Machine, wanted: ServerJoining, clock: Clock) -> FoundServer:
    """Report all obstacles at once. Raises Blocked, WrongAuthority."""
    return await reached(list(_obstacles(machine, wanted)), wanted.addresses, wanted.token, clock)


def _obstacles(machine: Machine, wanted: ServerJoining) -> Iterator[Obstacle]:
    if os.geteuid() != 0:
        yield Obstacle("root", f"this needs root, for {machine.config} and {machine.data}; run it as root")
    if (machine.data / "up.lock").exists():
        yield Obstacle("data", f"{machine.data} was made by tarmac up; tarmac down removes it")
    if (machine.data / "store.db").exists():
        why = f"this machine has a store of its own, {machine.data / 'store.db'}; tarmac leave --delete-data first"
        yield Obstacle("membership", why)
    known = authorities_of_node(machine) or authorities_of_server(machine)
    if known and wanted.token.ca_hash not in known:
        why = f"this machine belongs to cluster sha256:{known[0]}; tarmac leave --force --delete-data first"
        yield Obstacle("membership", why)
    elif KIND in documents_in(machine.config) and not _has_keys(machine, wanted.token.ca_hash):
        yield Obstacle("configuration", f"{machine.config} has a {KIND} already; remove it")
    if not running(machine, "server") and (why := taken(*wanted.options.listen)):
        yield Obstacle("port", f"{why}; stop the process that listens there, or pass another address with --listen")


def _has_keys(machine: Machine, ca_hash: str) -> bool:
    complete = (machine.data / "pki" / _LAST).exists() and (machine.data / "secrets.key").exists()
    return complete and ca_hash in authorities_of_server(machine)


async def _asked(machine: Machine, found: FoundServer, wanted: ServerJoining, clock: Clock) -> dict[str, Any]:
    """Request and open the keys. Raises SetupFailed."""
    key = _own_key(machine)
    print_progress("hand-over")
    body = {
        "name": wanted.name,
        "addresses": reached_at([wanted.options.listen[0]]),
        "publicKey": base64.b64encode(key.public_key().public_bytes_raw()).decode(),
        "version": __version__,
    }
    client = Client(HttpTransport(HttpConfig(found.url, ca=found.ca, token=wanted.token.credential), clock), clock)
    try:
        answer = await client.call("POST", SERVERS_PATH, body=msgspec.json.encode(body))
    except Unauthorized as error:
        known = f'the server does not know token "{wanted.token.id}": it expired or was deleted; make another one'
        raise SetupFailed(known) from error
    except ApiError as error:
        raise SetupFailed(error.message) from error
    finally:
        await client.close()
    purpose = Purpose(wanted.token.id, wanted.token.secret, wanted.name)
    try:
        fields = msgspec.json.decode(answer.body, type=dict[str, str])
        sealed = Sealed(*(base64.b64decode(fields[each], validate=True) for each in ("publicKey", "sealed")))
        return msgspec.json.decode(unseal(sealed, key, purpose), type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeError, KeyError, binascii.Error) as error:
        raise SetupFailed(f"the server's answer cannot be read: {error}") from error
    except BadSeal as error:
        raise SetupFailed(str(error)) from error


def _key_file(machine: Machine) -> Any:
    return machine.data / "join.key"


def _own_key(machine: Machine) -> X25519PrivateKey:
    """Return the key of an earlier attempt, so that a killed command can ask again; else generate one."""
    file = _key_file(machine)
    try:
        return X25519PrivateKey.from_private_bytes(file.read_bytes())
    except (OSError, ValueError):
        key = X25519PrivateKey.generate()
        write_private(file, key.private_bytes_raw())
        return key


def store_keys(machine: Machine, content: dict[str, Any], ca_hash: str) -> str:
    """Store the keys; return the URL of the store for this host. Raises SetupFailed."""
    pki: dict[str, str] = content["pki"]
    if strange := [name for name in (*pki, *content["store"]["files"]) if not _FILE_NAME.fullmatch(name)]:
        raise SetupFailed(f"the server handed over a file called {strange[0]!r}: nothing was written")
    if ca_hash not in key_hashes(pki["ca.crt"].encode()):
        raise SetupFailed("the server handed over another authority than the token names: nothing was written")
    write_private(machine.data / "secrets.key", content["secrets.key"].encode())
    folder, files = machine.data / "etcd", {}
    for option, text in content["store"]["files"].items():
        folder.mkdir(mode=0o700, exist_ok=True)
        files[option] = folder / option
        write_private(files[option], base64.b64decode(text))
    folder = machine.data / "pki"
    folder.mkdir(mode=0o700, exist_ok=True)
    for name in sorted(pki, key=lambda name: name == _LAST):
        write_private(folder / name, pki[name].encode())
    return with_files(content["store"]["url"], files)
