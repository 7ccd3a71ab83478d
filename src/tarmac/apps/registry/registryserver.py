"""Runs the registry beside the control plane, and configures the cities' containerds for it.

It is stopped when `up` shuts down, but survives when `up` is killed. The next `up` stops a leftover one and starts its
own on the same images: interrupted uploads continue.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from tarmac.api.repositories import REGISTRY, TOKEN_ISSUER, TOKENS_PATH
from tarmac.apps.control_plane import Running
from tarmac.apps.layout import Layout
from tarmac.apps.processes import RESTART_DELAY, end, ended, last_words, start, stop
from tarmac.apps.registry.registrypaths import RegistryFiles, files_of, registries_of
from tarmac.apps.registry.upkeep import Upkeep
from tarmac.base.clock import Clock, SystemClock
from tarmac.base.log import log
from tarmac.base.randomness import Randomness
from tarmac.base.tasks import background, first, supervise
from tarmac.runtimes.parts import PartMissing, find_program
from tarmac.server.security.certificates.pki import Pki
from tarmac.server.security.keys.privatefiles import write_private

PROGRAM = "docker-registry"
_POLL_INTERVAL = 10.0  # interval of checking if its certificate was issued by the signing CA
_MAX_CERTIFICATE_USE = 300 * 24 * 3600.0  # of a year: then it is restarted with a new one
_READY_TIMEOUT = 20.0
_HOSTS = Path("/etc/hosts")
_log = log("registry")

ADDRESS: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Registry:
    """One registry: its files, port and command.

    `quota` is the number of bytes that one namespace may push. `certs` are the directories in which containerds look
    for registries. `wrapper` is a command prefix.
    """

    layout: Layout
    port: int
    quota: int
    program: Path
    certs: tuple[Path, ...] = ()
    wrapper: tuple[str, ...] = ()

    @property
    def files(self) -> RegistryFiles:
        """The files in the data directory."""
        return files_of(self.layout.data_dir)


def find_registry() -> Path:
    """Return the program. Raises PartMissing, which says how to get it."""
    try:
        return find_program(PROGRAM)
    except PartMissing as missing:
        raise PartMissing(f"{missing} (`make registry` fetches this one alone, without root)") from missing


@asynccontextmanager
async def with_registry(
    registry: Registry,
    server: Callable[[Running], str],
    beside: Callable[[Running], AbstractAsyncContextManager[None]],
    running: Running,
) -> AsyncGenerator[None]:
    """Run the registry and `beside` with a control plane. `server` returns its URL for all clients.

    Raises OSError if the port is in use.
    """
    clock = SystemClock()
    await end(registries_of(registry.layout.data_dir))
    _check_port(registry.port)
    _announce(registry)
    running.shared.repositories.most = registry.quota
    upkeep = Upkeep(registry.files, running.store, running.shared.repositories, clock)
    keep = partial(_keep, registry, server(running), Pki(registry.layout.pki, clock), upkeep)
    async with (
        background(supervise("registry", keep, clock), "registry"),
        background(supervise("upkeep of the registry", upkeep.run, clock), "upkeep of the registry"),
    ):
        await _reported(registry, clock)
        async with beside(running):
            yield


def _announce(registry: Registry) -> None:
    """Write the configuration of containerds, which read it at each pull.

    The name with the port is the one that was pushed; without it, the one that is the same on every host. Names with a
    former port may be in manifests, and are kept.
    """
    text = hosts_text(registry.port, registry.layout.pki / "ca.crt").encode()
    for folder in registry.certs:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        earlier = [each.name for each in folder.glob(f"{REGISTRY}:*")]
        for name in (REGISTRY, f"{REGISTRY}:{registry.port}", *earlier):
            (folder / name).mkdir(parents=True, exist_ok=True)
            write_private(folder / name / "hosts.toml", text)


async def _keep(registry: Registry, server: str, pki: Pki, upkeep: Upkeep) -> None:
    """Run the registry; restart it when it ends, needs a new certificate, or images and tokens must go."""
    files = registry.files
    command = [*registry.wrapper, str(registry.program), "serve", str(files.config)]
    # Its environment variables would override the file, including the trusted certificates.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("REGISTRY_", "OTEL_"))}
    while True:
        await asyncio.to_thread(_write, registry, server, pki)
        await upkeep.clean()  # no process uses the images now
        process = await start(command, files.log, environment)
        try:
            async with asyncio.timeout(_MAX_CERTIFICATE_USE):
                await first(_end_of(process, files.log), _set(upkeep.needed), _other_authority(pki))
        except TimeoutError:
            pass
        finally:
            # Also on cancellation, and before anything is removed: two registries on the same images would both write.
            code = process.returncode
            await stop(process)
        if code is not None:
            _log.warning("registry ended, restarting", code=code, output=last_words(files.log))
            await asyncio.sleep(RESTART_DELAY)


async def _end_of(process: asyncio.subprocess.Process, log: Path) -> None:
    await ended(process, log)


async def _other_authority(pki: Pki) -> None:
    """Wait until a different CA signs."""
    used = pki.authority.pem
    while pki.authority.pem == used:  # a different process may replace it
        await SystemClock().sleep(_POLL_INTERVAL)


async def _set(event: asyncio.Event) -> None:
    await event.wait()


def _write(registry: Registry, server: str, pki: Pki) -> None:
    """Write all its files; only its images and its secret are kept from earlier starts, and no token is."""
    files = registry.files
    files.folder.mkdir(mode=0o700, exist_ok=True)
    if not files.secret.exists():
        write_private(files.secret, Randomness().uuid().encode())
    serving = pki.registry_server([ADDRESS, "localhost"])
    write_private(files.certificate, serving.certificate)
    write_private(files.key, serving.key)
    write_private(files.trusted, pki.renew_registry_tokens().certificate)
    text = config_text(files, registry.port, server, files.secret.read_text())
    write_private(files.config, text.encode())


async def _reported(registry: Registry, clock: Clock) -> None:
    """Wait for the registry and print its state."""
    deadline = clock.monotonic() + _READY_TIMEOUT
    while not await asyncio.to_thread(_listens, registry.port):
        if clock.monotonic() > deadline:
            log_file = registry.files.log
            print(f"the registry is not ready: {last_words(log_file)}. Its log is {log_file}", file=sys.stderr)
            return
        await clock.sleep(0.05)
    print(f"the registry is ready at https://{REGISTRY}:{registry.port}", file=sys.stderr)
    if not is_known(_HOSTS):
        line = f"{ADDRESS} {REGISTRY}"
        print(f"to push from this machine, put the line `{line}` into {_HOSTS}", file=sys.stderr)


def is_known(hosts: Path) -> bool:
    """Return True if the host resolves the registry's name."""
    try:
        lines = hosts.read_text(errors="replace").splitlines()
    except OSError:
        return False
    return any(REGISTRY in line.partition("#")[0].split()[1:] for line in lines)


def _check_port(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((ADDRESS, port))
        except OSError as error:
            raise OSError(
                f"the registry cannot listen on {ADDRESS}:{port}: {error.strerror}; name another port"
            ) from error


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((ADDRESS, port)) == 0


# Configuration files of the registry and of the cities' containerds. Pure functions.
#
# The registry is on the host's loopback. In a city a relay (`cities.relays`) serves the same address, so one address
# works everywhere. Clients are sent to the API server for a token; the registry itself has no users.


def config_text(files: RegistryFiles, port: int, server: str, secret: str) -> str:
    """Return the config.yml, as JSON, which is valid YAML. `server` is the API server's URL for all clients."""
    config: dict[str, Any] = {
        "version": 0.1,
        "log": {"level": "warn", "accesslog": {"disabled": True}},
        "storage": {
            "filesystem": {"rootdirectory": str(files.images)},
            # Deletes unfinished uploads; images stay.
            "maintenance": {"uploadpurging": {"enabled": True, "age": "24h", "interval": "1h", "dryrun": False}},
        },
        "http": {
            "addr": f"{ADDRESS}:{port}",
            "secret": secret,
            "relativeurls": True,  # clients use several host names
            "tls": {"certificate": str(files.certificate), "key": str(files.key), "minimumtls": "tls1.2"},
            "headers": {"X-Content-Type-Options": ["nosniff"]},
        },
        "auth": {
            "token": {
                "realm": f"{server}{TOKENS_PATH}",
                "service": REGISTRY,
                "issuer": TOKEN_ISSUER,
                "rootcertbundle": str(files.trusted),
            }
        },
    }
    return json.dumps(config, indent=2)


def hosts_text(port: int, ca: Path) -> str:
    """Return the hosts.toml of a containerd. No other host is tried: the name exists only here."""
    url, trusted = json.dumps(f"https://{ADDRESS}:{port}"), json.dumps(str(ca))
    lines = [
        f"server = {url}",
        f"ca = {trusted}",
        f"[host.{url}]",
        '  capabilities = ["pull", "resolve"]',
        f"  ca = {trusted}",
    ]
    return "\n".join(lines) + "\n"
