"""Consoles of virtual machines through server, tunnel and node: rights, other viewers, and recordings."""

from __future__ import annotations

import asyncio
import json
import os
import pty
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tarmac.api.status import ApiError, BadRequest, Forbidden, ServiceUnavailable, TooManyRequests
from tarmac.base.randomness import Randomness
from tarmac.client.client import Client
from tarmac.client.http import HttpConfig, tls_context
from tarmac.client.targets.target import dynamic
from tarmac.client.targets.untyped import NAMESPACES, PODS
from tarmac.client.transport import ClientRequest
from tarmac.client.websockets import open_websocket
from tarmac.http.clientrequest import request_head, send_request, tcp
from tests.server.streams.machineplanet import BASE, MachinePlanet, machine_planet
from tests.support.kubectl import kubectl_path

WAYS = ("console", "vnc")


@pytest.fixture
async def planet(tmp_path: Path) -> AsyncIterator[MachinePlanet]:
    async with machine_planet(tmp_path) as made:
        yield made


async def press(client: Client, name: str = "vm", action: Any = "Pause") -> Any:
    body = json.dumps({"action": action}).encode()
    reply = await client.transport.request(ClientRequest("POST", f"{BASE}/{name}/power", body=body))
    return reply.status, json.loads(reply.body)


async def recordings(client: Client, query: str = "") -> tuple[int, bytes]:
    reply = await client.transport.request(ClientRequest("GET", f"{BASE}/vm/recordings", query))
    return reply.status, reply.body


async def raw(config: HttpConfig, url: str, path: str, *headers: tuple[str, str]) -> tuple[int, str]:
    """A WebSocket request with headers that no honest client sends; rejected or disconnected at once."""
    host, port = url.removeprefix("https://").split(":")
    upgrade = [("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13")]
    more = [("Sec-WebSocket-Key", "x" * 22 + "=="), ("Sec-WebSocket-Protocol", "v5.channel.k8s.io"), *headers]
    dial = tcp(host, int(port), tls_context(config), None)
    reply = await send_request(dial, request_head("GET", path, f"{host}:{port}", [*upgrade, *more]), 10)
    text = "" if reply.status == 101 else (await reply.read(10_000)).decode()
    reply.close()
    return reply.status, text


async def until(true: Any) -> None:
    async with asyncio.timeout(30):
        while not true():
            await asyncio.sleep(0.005)


# ---- several users


async def test_two_watchers_and_a_writer_see_the_same_bytes_and_who_is_there(planet: MachinePlanet) -> None:
    writer = await planet.console(config=planet.config("ann", "system:masters"))
    watchers = [await planet.console(""), await planet.console("stdin=true")]
    for each in (writer, *watchers):
        await each.until(lambda each: bool(each.notices))
    assert [each.notices[0]["keyboard"] for each in (writer, *watchers)] == [True, False, False]
    assert watchers[1].notices[0]["writer"]["user"] == "ann"
    await watchers[1].type(b"rm -rf /\r")
    await writer.type(b"ls\r")
    for each in (writer, *watchers):
        await each.until(lambda each: each.output == b"ls\r\n")
    taker = await planet.console("stdin=true&takeover=true")
    await taker.until(lambda each: bool(each.notices) and each.notices[0]["keyboard"])
    await writer.until(lambda each: each.notices[-1].get("keyboard") is False)
    await writer.type(b"lost")
    await taker.type(b"id\r")
    await writer.until(lambda each: each.output == b"ls\r\nid\r\n")
    assert planet.guest.typed == b"ls\rid\r"


async def test_a_client_that_was_cut_off_resumes_with_nothing_missing(planet: MachinePlanet) -> None:
    first = await planet.console()
    planet.guest.write(b"a" * 30_000)
    await first.until(lambda each: len(each.output) == 30_000)
    offset = first.notices[0]["offset"] + len(first.output)
    first.socket._transport.abort()  # pyright: ignore[reportPrivateUsage]
    planet.guest.write(b"b" * 30_000)
    second = await planet.console(f"since=0:{offset}")
    await second.until(lambda each: len(each.output) == 30_000)
    assert second.output == b"b" * 30_000
    assert second.notices[0]["offset"] == offset


async def test_a_seventeenth_watcher_is_one_too_many(planet: MachinePlanet) -> None:
    people = [await planet.console("") for _ in range(16)]
    with pytest.raises(TooManyRequests, match="16 people are at this console"):
        await planet.console("")
    people[0].socket.close()
    await until(lambda: len(planet.machine.console) == 15)
    await planet.console("")


async def test_a_stuck_watcher_does_not_slow_the_guest_or_others(planet: MachinePlanet) -> None:
    await planet.turn_recording("off")
    stuck, reading = await planet.console(""), await planet.console("")
    await reading.until(lambda each: bool(each.notices))
    stuck.socket._transport.pause_reading()  # pyright: ignore[reportPrivateUsage]
    piece, number = b"z" * 100_000, 400  # forty megabytes: more than all sockets of the path buffer
    for _ in range(number):
        planet.guest.write(piece)
        await reading.until(lambda each: len(each.output) >= len(piece))
        assert reading.output == piece
        reading.output = b""
    assert len(planet.machine.console) == 2
    planet.guest.forget(number * len(piece) - 100_000)
    stuck.socket._transport.resume_reading()  # pyright: ignore[reportPrivateUsage]
    await stuck.until(lambda each: any("gap" in notice for notice in each.notices))
    gap = next(notice["gap"] for notice in stuck.notices if "gap" in notice)
    await stuck.until(lambda each: len(each.output) == number * len(piece) - gap)


async def test_a_session_in_which_nothing_passes_is_cut_off_over_a_tunnel_too(tmp_path: Path) -> None:
    async with machine_planet(tmp_path, idle_seconds=0.4) as planet:
        session = await planet.console()
        await session.rest()
        assert session.notices
        await until(lambda: len(planet.told) == 2)


# ---- rights


async def test_a_viewer_gets_no_console_an_editor_no_recordings_and_an_administrator_both(
    planet: MachinePlanet,
) -> None:
    for role in ("view", "edit", "admin"):
        await planet.grant(role, role)
    viewer, editor, admin = (planet.config(role, "tenants") for role in ("view", "edit", "admin"))
    for query in ("", "stdin=true", "stdin=true&takeover=true"):
        with pytest.raises(Forbidden, match='cannot create resource "instances/console"'):
            await planet.console(query, viewer)
    with pytest.raises(Forbidden):
        await open_websocket(viewer, f"{BASE}/vm/vnc?view=true", [], Randomness())
    assert (await press(planet.client_of("view", "tenants")))[0] == 403
    session = await planet.console(config=editor)
    await session.until(lambda each: bool(each.notices))
    assert (await press(planet.client_of("edit", "tenants")))[0] == 200
    assert (await recordings(planet.client_of("view", "tenants")))[0] == 403
    assert (await recordings(planet.client_of("edit", "tenants")))[0] == 403
    assert (await recordings(planet.client_of("admin", "tenants")))[0] == 200
    (await planet.console("", admin)).socket.close()


async def test_nobody_says_who_they_are_but_by_their_credential(planet: MachinePlanet) -> None:
    claim = [("X-Tarmac-User", "somebody-else"), ("X-Tarmac-Record", "off")]
    config, url = planet.config("mallory"), planet.running.url
    # Through the API, and through the proxy of the node.
    uid = planet.pods.known[0]["metadata"]["uid"]
    proxied = f"/api/v1/nodes/n1/proxy/tarmac/v1/console/default/vm/{uid}"
    # And on the node's own port.
    direct = f"https://127.0.0.1:{planet.node_port}"
    for where, path in ((url, f"{BASE}/vm/console"), (url, proxied), (direct, proxied.partition("proxy")[2])):
        before = len(planet.told)
        assert (await raw(config, where, path, *claim))[0] == 101
        await until(lambda before=before: len(planet.told) == before + 2)
        assert planet.told[before][1].startswith("mallory is at the console")
        assert planet.told[before][1].endswith(", recorded")


async def test_a_node_is_no_server(planet: MachinePlanet) -> None:
    pair = planet.pki.node("n2")
    stolen = HttpConfig("", ca=planet.pki.ca_file.read_text(), certificate=pair.certificate.decode(),
                        key=pair.key.decode())  # fmt: skip
    path = f"/tarmac/v1/console/default/vm/{planet.pods.known[0]['metadata']['uid']}"
    direct = f"https://127.0.0.1:{planet.node_port}"
    assert (await raw(stolen, direct, path, ("X-Tarmac-User", "admin")))[0] == 403
    assert (await raw(stolen, planet.running.url, f"{BASE}/vm/console", ("X-Tarmac-User", "admin")))[0] == 403
    assert planet.told == []


async def test_tenants_cannot_turn_off_console_recording(planet: MachinePlanet) -> None:
    rules = [{"apiGroups": [""], "resources": ["namespaces", "namespaces/finalize", "namespaces/status"],
              "verbs": ["*"]}]  # fmt: skip
    api = "rbac.authorization.k8s.io/v1"
    role = {"apiVersion": api, "kind": "ClusterRole", "metadata": {"name": "namespaces"}, "rules": rules}
    await planet.client.resource(dynamic(api, "clusterroles", "ClusterRole", namespaced=False)).create(role)
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "namespaces"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "owner"}
    binding = {"apiVersion": api, "kind": "ClusterRoleBinding", "metadata": {"name": "owner"},
               "roleRef": reference, "subjects": [subject]}  # fmt: skip
    await planet.client.resource(dynamic(api, "clusterrolebindings", "ClusterRoleBinding", namespaced=False)).create(
        binding
    )
    owner = planet.client_of("owner", "tenants").resource(NAMESPACES)
    off = {"annotations": {"compute.datumapis.com/console-recording": "off"}}
    with pytest.raises(Forbidden, match="consolerecordings"):
        await owner.patch("default", {"metadata": off})
    with pytest.raises(Forbidden, match="consolerecordings"):
        await owner.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mine", **off}})
    await planet.turn_recording("off")
    with pytest.raises(Forbidden, match="consolerecordings"):
        await owner.patch("default", {"metadata": {"annotations": {"compute.datumapis.com/console-recording": None}}})
    await owner.patch("default", {"metadata": {"labels": {"a": "b"}}})  # other fields may be changed


# ---- errors


@pytest.mark.parametrize("way", WAYS)
async def test_a_sandbox_has_no_console_screen_or_power_button(planet: MachinePlanet, way: str) -> None:
    with pytest.raises(BadRequest, match='instance "box" is not a virtual machine'):
        await open_websocket(planet.config(), f"{BASE}/box/{way}", [], Randomness())
    status, told = await press(planet.client_of("admin"), "box")
    assert (status, told["reason"]) == (400, "BadRequest")


async def test_a_machine_that_is_nowhere_cannot_be_reached(planet: MachinePlanet) -> None:
    await planet.client.resource(PODS).delete("vm", "default", grace=0)
    with pytest.raises(ServiceUnavailable, match='instance "vm" has no Pod yet'):
        await planet.console()
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "vm", "namespace": "default"},
            "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}}  # fmt: skip
    await planet.client.resource(PODS).create(body)  # a user's own Pod, of the same name
    with pytest.raises(ServiceUnavailable, match="has no Pod yet"):
        await planet.console()


async def test_power_is_pressed_once_or_refused_with_the_reason(planet: MachinePlanet) -> None:
    client = planet.client_of("admin")
    assert await press(client, action="Pause") == (200, {"action": "Pause"})
    assert await press(client, action="Pause") == (200, {"action": "Pause"})
    status, told = await press(client, action="Reboot")
    assert (status, told["reason"], told["message"]) == (409, "Conflict", "the machine is paused: resume or reset it")
    for wrong in ("Halt", "", None, 7):
        status, told = await press(client, action=wrong)
        assert (status, told["reason"]) == (400, "BadRequest")
        assert "one of Reboot, Reset, Pause, Resume, Stop, Start" in told["message"]
    assert planet.machine.pressed == ["Pause", "Pause"]


async def test_invalid_console_requests_name_the_error(planet: MachinePlanet) -> None:
    with pytest.raises(BadRequest, match="since: ATTEMPT:OFFSET"):
        await planet.console("since=yesterday")
    with pytest.raises(ApiError, match="binary is spoken here"):
        await open_websocket(planet.config(), f"{BASE}/vm/vnc", ["base64"], Randomness())
    with pytest.raises(ApiError, match="the machine's screen cannot be reached"):
        await open_websocket(planet.config(), f"{BASE}/vm/vnc", [], Randomness())  # no server listens there


# ---- recordings


async def test_a_recording_replays_and_names_the_user(planet: MachinePlanet) -> None:
    session = await planet.console(config=planet.config("ann"))
    await session.until(lambda each: bool(each.notices))
    planet.guest.echoes = False
    await session.type(b"secret\r")
    planet.guest.write("héllo \x1b[31mred\r\n".encode())
    await session.until(lambda each: each.output.endswith(b"red\r\n"))
    session.socket.close()
    await until(lambda: [reason for reason, _ in planet.told] == ["ConsoleOpened", "ConsoleClosed"])
    status, body = await recordings(planet.client_of("admin"))
    (listed,) = json.loads(body)["recordings"]
    assert (status, listed["user"], listed["kind"]) == (200, "ann", "console")
    status, cast = await recordings(planet.client_of("admin"), f"session={listed['session']}")
    header, *events = map(json.loads, cast.decode().splitlines())
    assert (header["version"], header["title"], header["tarmac"]["user"]) == (2, "default/vm", "ann")
    assert "".join(text for _, code, text in events if code == "o") == "héllo \x1b[31mred\r\n"
    assert [text for _, code, text in events if code == "m"] == ["has the keyboard", "end"]
    assert b"secret" not in cast
    assert (await recordings(planet.client_of("admin"), "session=..%2F..%2Fetc"))[0] == 404


async def test_with_recording_off_there_is_none_and_the_session_says_so(planet: MachinePlanet) -> None:
    await planet.turn_recording("off")
    session = await planet.console()
    await session.until(lambda each: bool(each.notices))
    assert session.notices[0]["recorded"] is False
    planet.guest.write(b"x")
    await session.until(lambda each: each.output == b"x")
    session.socket.close()
    await until(lambda: len(planet.told) == 2)
    assert "not recorded" in planet.told[0][1]
    assert json.loads((await recordings(planet.client_of("admin")))[1]) == {"recordings": []}
    assert not (planet.folder / "recordings").exists()


async def test_sessions_are_audited_with_their_length(planet: MachinePlanet) -> None:
    session = await planet.console()
    await session.until(lambda each: bool(each.notices))
    session.socket.close()
    log = next(planet.folder.rglob("audit.log"))

    def stages() -> list[tuple[str, str]]:
        lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        return [(each["auditID"], each["stage"]) for each in lines if "/vm/console" in each["requestURI"]]

    await until(lambda: len(stages()) == 2)
    (first, began), (second, ended) = stages()
    assert (first, began, ended) == (second, "ResponseStarted", "ResponseComplete")


# ---- kubectl


def kubectl(planet: MachinePlanet, *arguments: str) -> tuple[list[str], dict[str, str]]:
    environment = {**os.environ, "KUBECONFIG": str(planet.kubeconfig), "HOME": str(planet.folder)}
    return [kubectl_path(), *arguments], environment


async def test_exec_is_refused_in_words_that_say_what_to_use(planet: MachinePlanet) -> None:
    command, environment = kubectl(planet, "exec", "vm", "--", "ls")
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, env=environment, stdout=pipe, stderr=pipe)
    _, said = await process.communicate()
    assert process.returncode == 1
    assert b'a virtual machine has no exec: use "kubectl attach -it", "tarmac console" or ssh' in said


async def test_kubectl_attach_has_the_console_and_enter_tilde_dot_leaves(planet: MachinePlanet) -> None:
    command, environment = kubectl(planet, "attach", "-it", "vm")
    ours, theirs = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *command, env=environment, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    os.set_blocking(ours, False)
    seen = b""

    def shown(what: bytes) -> bool:
        nonlocal seen
        with suppress(OSError):
            seen += os.read(ours, 65536)
        return what in seen

    try:
        await until(lambda: shown(b"you have the keyboard; Enter ~ . leaves]"))
        os.write(ours, b"uptime\r")
        await until(lambda: shown(b"uptime\r\n"))
        os.write(ours, b"\r~.")
        async with asyncio.timeout(10):
            assert await process.wait() == 0
    finally:
        os.close(ours)
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert planet.guest.typed == b"uptime\r\r"
    assert "(attach, session" in planet.told[0][1]
