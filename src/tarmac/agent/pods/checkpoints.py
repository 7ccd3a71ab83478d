"""Pod definitions kept on disk, so that pods are looked after while the server is away, by the next agent too.

Each is one file that only root may read. It holds the pod's object and the resources it was promised, never what the
object refers to: secrets are not kept. A pod is kept before anything of it is made, so that whatever the runtime has is
known to the next agent; what changes later is written a moment after, many changes at once. Files are not waited for to
reach the disk: they outlive a killed agent, and after a loss of power nothing runs that would have to be looked after.

Pods of the node's own manifests are not kept: their manifests are.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from tarmac.agent.allocation.promises import Resizes
from tarmac.agent.containers.paths import PodPaths
from tarmac.agent.model.pod import Pod
from tarmac.api.schema import JsonObject
from tarmac.base.clock import Clock
from tarmac.base.log import log

DELAY = 0.5
_PASSING = ("managedFields", "resourceVersion")

_log = log("pods")


class _Kept(msgspec.Struct):
    pod: dict[str, Any]
    promised: dict[str, dict[str, Any]] = {}


_decode = msgspec.json.Decoder(_Kept).decode
_encode = msgspec.json.Encoder().encode


class PodCheckpoints:
    """The kept definitions of this node's pods."""

    def __init__(self, paths: PodPaths, clock: Clock) -> None:
        self._paths = paths
        self._clock = clock
        self._new: dict[str, tuple[Pod, JsonObject, Resizes]] = {}
        self._written: dict[str, bytes] = {}
        self._filled = asyncio.Event()

    def keep(self, pod: Pod, status: JsonObject, promised: Resizes) -> None:
        """Write this soon."""
        if not pod.static:
            self._new[pod.uid] = (pod, status, promised)
            self._filled.set()

    def keep_now(self, pod: Pod, status: JsonObject, promised: Resizes) -> None:
        """Write this before anything else happens. A disk that takes nothing does not keep a pod from running."""
        if not pod.static:
            self._new.pop(pod.uid, None)
            self._write(pod, status, promised)

    async def run(self) -> NoReturn:
        """Write what is new, until cancelled."""
        while True:
            await self._filled.wait()
            await self._clock.sleep(DELAY)
            self._filled.clear()
            while self._new:
                self._write(*self._new.pop(next(iter(self._new))))

    def _write(self, pod: Pod, status: JsonObject, promised: Resizes) -> None:
        metadata = {field: value for field, value in pod.metadata.items() if field not in _PASSING}
        data = _encode(_Kept({**pod.raw, "metadata": metadata, "status": status}, dict(promised)))
        if self._written.get(pod.uid) == data:
            return
        path = self._paths.definition(pod.uid)
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o750)
            _replace(path, data)
        except OSError as error:
            _log.warning("pod definition not kept", pod=pod.key, error=str(error))
            return
        self._written[pod.uid] = data

    def forget(self, uid: str) -> None:
        """The pod is gone."""
        self._new.pop(uid, None)
        self._written.pop(uid, None)

    def read(self) -> Iterator[tuple[Pod, Resizes]]:
        """Everything kept. What cannot be read is left where it is, and said."""
        for path in sorted((self._paths.root / "pods").glob("*/pod.json")):
            try:
                kept = _decode(path.read_bytes())
                yield Pod(kept.pod), kept.promised
            except (OSError, msgspec.MsgspecError, KeyError) as error:
                _log.warning("kept pod definition not read", path=str(path), error=str(error))


def _replace(path: Path, data: bytes) -> None:
    """In one step: a reader finds the old one or the new one."""
    unfinished = path.with_suffix(".new")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(data)
    unfinished.replace(path)
