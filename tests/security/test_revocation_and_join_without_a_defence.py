"""Stolen certificates, tokens, backups and locks, with each defence and without it."""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
import sys
import tempfile
import time
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from tarmac.agent.http import auth
from tarmac.api.networking.cities import location_of
from tarmac.apps.backups import restore as restoring
from tarmac.base import lockfiles
from tarmac.base.clock import SystemClock
from tarmac.cli.machines import browser
from tarmac.cli.machines.instanceendpoint import InstanceEndpoint
from tarmac.cli.verbs.console import Console
from tarmac.cli.verbs.tokens import create_token
from tarmac.client.client import Client
from tarmac.client.http import HttpConfig, HttpTransport
from tarmac.client.targets.untyped import LOCATIONS
from tarmac.controllers.certificates import nodebootstrap
from tarmac.controllers.certificates.tokenuses import NodeTokenUses
from tarmac.controllers.revoking import revoke
from tarmac.store.backups.restoring import SqlitePlace
from tarmac.store.open import sqlite_path
from tests.attacking import TWICE
from tests.security.test_forged_backups import BINDING, KEY, OTHER_KEY, Cluster
from tests.security.test_joining import asked, outcome
from tests.security.test_revoked_at_nodes import caller
from tests.security.test_secrets_in_command_lines import TOKEN
from tests.security.wire import serving
from tests.server.streams.planet import planet

NOBODY = 65534


def nothing(*_: object) -> None:
    return None


@TWICE
async def test_a_revoked_certificate_at_a_nodes_own_port(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, defended: bool
) -> None:
    certified = auth.certified
    if not defended:
        monkeypatch.setattr(auth, "certified", lambda certificate: replace(certified(certificate), not_before=""))
    monkeypatch.setattr(auth, "_CERTIFICATE_SECONDS", 0.0)  # a positive decision is not cached
    async with planet(tmp_path, tunnelled=False) as world:
        jane = world.pki.authority.issue_client("jane", ("system:masters",), SystemClock().now())
        assert (await (await caller(world, jane)).get("/pods")).status == 200
        await revoke(world.client, "jane")
        assert (await (await caller(world, jane)).get("/pods")).status == (403 if defended else 200)


@TWICE
async def test_a_token_of_one_use_with_a_second_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, defended: bool
) -> None:
    claim = NodeTokenUses.claim
    if not defended:
        monkeypatch.setattr(nodebootstrap, "_objection", nothing)
        monkeypatch.setattr(NodeTokenUses, "claim", lambda uses, token, node, _key: claim(uses, token, node, "any"))
    async with serving(tmp_path) as wire:
        await wire.admin.resource(LOCATIONS).create(location_of("dfw", "DFW", "nodes"))
        token = await create_token(wire.admin, "dfw", 1, 3600)
        assert outcome(await asked(wire, token.credential, "new", "mine"))[0] == "Approved"
        thief = await asked(wire, token.credential, "new", "theft", ec.generate_private_key(ec.SECP256R1()))
        assert outcome(thief)[0] == ("Denied" if defended else "Approved")
        assert ("certificate" not in thief) is defended


@TWICE
def test_a_token_in_the_list_of_processes(defended: bool) -> None:
    """Every local user can read the command line of a process, but only its own user the rest."""
    given = ["--token-file", "-"] if defended else ["--token", TOKEN.text]
    program = [sys.executable, "-m", "tarmac.apps.main", "join", "192.0.2.1", *given]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            while not (seen := Path(f"/proc/{process.pid}/cmdline").read_bytes()):
                time.sleep(0.01)  # empty between fork and exec
        finally:
            process.kill()
    assert (TOKEN.secret.encode() not in seen) is defended


@TWICE
async def test_the_secret_address_of_a_screen_in_the_browsers_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, defended: bool
) -> None:
    if not defended:
        plain: Callable[[str], object] = lambda url: nullcontext(SimpleNamespace(as_uri=lambda: url))  # noqa: E731
        monkeypatch.setattr(browser, "redirect_file", plain)
    (tmp_path / "vnc_lite.html").write_text("<html>")
    monkeypatch.setattr(browser, "NOVNC", tmp_path)
    loop = asyncio.get_running_loop()
    started: asyncio.Future[str] = loop.create_future()
    monkeypatch.setattr(webbrowser, "open", lambda url: loop.call_soon_threadsafe(started.set_result, url))
    out, client = StringIO(), Client(HttpTransport(HttpConfig("https://127.0.0.1:1")))
    place, console = InstanceEndpoint(HttpConfig("https://127.0.0.1:1"), "default", "vm"), Console(out, StringIO())
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        serving_screen = group.create_task(browser.serve_browser(client, place, 0, True, console))
        command = await started
        serving_screen.cancel()
    await client.close()
    assert (out.getvalue().strip().split("/")[3] not in command) is defended


@TWICE
async def test_a_backup_of_another_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, defended: bool) -> None:
    if not defended:
        monkeypatch.setattr(restoring, "is_foreign", lambda *_: False)
    cluster = Cluster(tmp_path / "own")
    cluster.install(KEY)
    cluster.back_up(OTHER_KEY)
    if defended:
        assert (await cluster.refusal()).startswith("cluster: ")
        return
    await cluster.restore()
    place = SqlitePlace(sqlite_path(cluster.layout.store_url), lambda: "test")
    rows = (await place.present()).rows
    await place.close()
    [binding] = [row for row in rows if (row.bucket, row.name) == BINDING]
    assert b"alice" in (binding.value or b""), "an administrator of the other cluster"


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every local user can enter; those of pytest are for their owner only."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.root
@TWICE
def test_a_lock_held_by_another_user(open_folder: Path, monkeypatch: pytest.MonkeyPatch, defended: bool) -> None:
    if not defended:
        monkeypatch.setattr(lockfiles.os, "fchmod", nothing)
    file = open_folder / ".lock"
    file.touch()
    file.chmod(0o644)  # as earlier versions made it
    os.close(lockfiles.open_lock(file))
    attempt = subprocess.run(["flock", "--nonblock", str(file), "true"], user=NOBODY, capture_output=True, check=False)
    assert (attempt.returncode != 0) is defended
    assert bool(stat.S_IMODE(file.stat().st_mode) & 0o044) is not defended
