"""Serves the relay's requests: ADD, DEL and CHECK of one pod's interfaces.

The client is the runtime, over a socket that only root can open. It identifies the pod by namespace, name and uid;
nothing else that it says about the pod is trusted.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from typing import Final

from tarmac.agent.network.cni.cnifiles import CNI_VERSION
from tarmac.api.networking.interfaces import AttachedInterface
from tarmac.api.schema import JsonObject
from tarmac.base.log import log
from tarmac.runtimes.interface import Interfaces, NotConnected, PodIdentity, WhyNotConnected

_MAX_REQUEST: Final = 1 << 20
_SLOW: Final = 30.0
_INVALID, _UNKNOWN_POD, _TRY_LATER, _FAILED = 4, 7, 11, 100
_CODES: Final = {
    WhyNotConnected.UNKNOWN_POD: _UNKNOWN_POD,
    WhyNotConnected.NOT_YET: _TRY_LATER,
    WhyNotConnected.BAD_INTERFACES: _INVALID,
}

_log = log("network")


class CniError(Exception):
    """A failed request, with CNI's error code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class CniServer:
    """The agent's end of the relay."""

    def __init__(self, path: Path, interfaces: Interfaces) -> None:
        self._path = path
        self._interfaces = interfaces

    async def run(self) -> None:
        """Serve until cancelled."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        aside = self._path.with_name(f".{self._path.name}")
        # Left by an agent that was killed before the rename.
        aside.unlink(missing_ok=True)
        server = await asyncio.start_unix_server(self._serve, aside, limit=_MAX_REQUEST)
        async with server:
            # Before the path is known: a connection to it attaches interfaces to any namespace.
            aside.chmod(0o600)
            os.replace(aside, self._path)  # only now: a relay that finds the path must find a listener
            await server.serve_forever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_SLOW):
                question = await reader.read(_MAX_REQUEST)
                while len(question) <= _MAX_REQUEST and (part := await reader.read(_MAX_REQUEST)):
                    question += part
            if len(question) > _MAX_REQUEST:
                raise OSError(f"a question of more than {_MAX_REQUEST} bytes")
            # A relay that is killed meanwhile does not stop this: the runtime calls DEL, or the links are swept later.
            writer.write(await self.answer(_pairs(question.decode(errors="replace"), "\0")))
            await writer.drain()
        except (OSError, TimeoutError) as error:
            _log.warning("CNI request incomplete", error=repr(error))
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def answer(self, question: Mapping[str, str]) -> bytes:
        """Return the exit code as one byte, followed by the output."""
        command = question.get("CNI_COMMAND", "")
        try:
            result = await self._carry_out(command, question)
        except CniError as refusal:
            return _refused(refusal.code, str(refusal))
        except Exception as error:
            _log.error("CNI request failed", command=command, sandbox=_sandbox(question), error=repr(error))
            return _refused(_FAILED, f"{type(error).__name__}: {error}")
        return b"\0" + (json.dumps(result).encode() if result is not None else b"")

    async def _carry_out(self, command: str, question: Mapping[str, str]) -> JsonObject | None:
        sandbox_id = _sandbox(question)
        if not sandbox_id:
            raise CniError(_INVALID, "CNI_CONTAINERID is missing")
        if command == "DEL":
            await self._interfaces.detach(sandbox_id)
            return None
        if command == "ADD":
            return await self._add(sandbox_id, question)
        if command == "CHECK":
            if not self._interfaces.attached(sandbox_id):
                raise CniError(_FAILED, f"sandbox {sandbox_id} has no interfaces")
            return None
        raise CniError(_INVALID, f"there is no command {command!r}")

    async def _add(self, sandbox_id: str, question: Mapping[str, str]) -> JsonObject:
        namespace = question.get("CNI_NETNS", "")
        if not namespace:
            raise CniError(_INVALID, "CNI_NETNS is missing")
        try:
            attached = await self._interfaces.attach(sandbox_id, _pod(question), namespace)
        except NotConnected as error:
            raise CniError(_CODES[error.why], str(error)) from error
        return _result(attached, namespace, question.get("CNI_IFNAME", "eth0"))


def _pod(question: Mapping[str, str]) -> PodIdentity:
    arguments = _pairs(question.get("CNI_ARGS", ""), ";")
    return PodIdentity(
        arguments.get("K8S_POD_NAMESPACE", ""), arguments.get("K8S_POD_NAME", ""), arguments.get("K8S_POD_UID", "")
    )


def _result(interfaces: Sequence[AttachedInterface], namespace: str, first: str) -> JsonObject:
    """Return CNI's result. Runtimes look up the pod's addresses by the interface name of the request.

    They also require an address: a pod without interfaces gets that of its loopback.
    """
    interfaces = interfaces or [AttachedInterface("lo", "", addresses=["127.0.0.1/8"])]
    names = [first, *(interface.name for interface in interfaces[1:])]
    return {
        "cniVersion": CNI_VERSION,
        "interfaces": [
            {"name": name, "mac": interface.mac, "sandbox": namespace}
            for name, interface in zip(names, interfaces, strict=True)
        ],
        "ips": [
            {"address": address, "interface": index} | ({"gateway": gateway} if gateway else {})
            for index, interface in enumerate(interfaces)
            for address, gateway in zip_longest(interface.addresses, interface.gateways, fillvalue="")
        ],
        "dns": {},
    }


def _refused(code: int, message: str) -> bytes:
    return b"\1" + json.dumps({"cniVersion": CNI_VERSION, "code": code, "msg": message}).encode()


def _pairs(text: str, separator: str) -> dict[str, str]:
    parts = (part.partition("=") for part in text.split(separator))
    return {name: value for name, _, value in parts}


def _sandbox(question: Mapping[str, str]) -> str:
    return question.get("CNI_CONTAINERID", "")
