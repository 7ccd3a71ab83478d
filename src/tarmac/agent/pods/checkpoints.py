"""Pod definitions on disk, for running pods without the server and for adoption by the next agent.

Each checkpoint is one file, readable only by root. It holds the pod object and its allocated resources, never the
Secrets and ConfigMaps it refers to. A checkpoint is written before any part of the pod is created, so the next agent
knows every pod that the runtime has. Later changes are debounced and written together. Files are not synced to disk:
they survive a killed agent, and after a power loss no pod runs that would need adoption.

Static pods have no checkpoint: their manifests serve as such.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, NoReturn

import msgspec

from tarmac.agent.allocation.promises import Resizes
from tarmac.agent.containers.paths import PodPaths
from tarmac.agent.model.pod import AgentPod
from tarmac.api.schema import JsonObject
from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.base.statefiles import read_state, replace_state

DELAY = 0.5
_MAX_BYTES = 16 << 20  # a Pod has 3 MiB at most
_VOLATILE = ("managedFields", "resourceVersion")

_log = log("pods")


class _Kept(msgspec.Struct):
    pod: dict[str, Any]
    promised: dict[str, dict[str, Any]] = {}


_decode = msgspec.json.Decoder(_Kept).decode
_encode = msgspec.json.Encoder().encode


class PodCheckpoints:
    """The checkpoints of this node's pods."""

    def __init__(self, paths: PodPaths, clock: Clock) -> None:
        self._paths = paths
        self._clock = clock
        self._new: dict[str, tuple[AgentPod, JsonObject, Resizes]] = {}
        self._written: dict[str, bytes] = {}
        self._filled = asyncio.Event()

    def save(self, pod: AgentPod, status: JsonObject, promised: Resizes) -> None:
        """Queue the pod for writing after `DELAY`."""
        if not pod.static:
            self._new[pod.uid] = (pod, status, promised)
            self._filled.set()

    def save_now(self, pod: AgentPod, status: JsonObject, promised: Resizes) -> None:
        """Write the checkpoint synchronously. A write error is logged and does not prevent the pod from running."""
        if not pod.static:
            # A queued, older version would overwrite this one.
            self._new.pop(pod.uid, None)
            self._write(pod, status, promised)

    async def run(self) -> NoReturn:
        """Write queued checkpoints until cancelled."""
        while True:
            await self._filled.wait()
            # Gathers the changes of a pod that starts: its status changes several times within a second.
            await self._clock.sleep(DELAY)
            # No await from here on: a pod that is queued later sets the event again.
            self._filled.clear()
            while self._new:
                self._write(*self._new.pop(next(iter(self._new))))

    def _write(self, pod: AgentPod, status: JsonObject, promised: Resizes) -> None:
        metadata = {field: value for field, value in pod.metadata.items() if field not in _VOLATILE}
        data = _encode(_Kept({**pod.raw, "metadata": metadata, "status": status}, dict(promised)))
        if self._written.get(pod.uid) == data:
            return
        path = self._paths.definition(pod.uid)
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o750)
            # Replaced by a rename: a kill during the write leaves the previous version readable.
            replace_state(path, data)
        except OSError as error:
            _log.warning("pod checkpoint write failed", pod=pod.key, error=str(error))
            return
        # Only after success: a failed write is repeated with the next change of the pod.
        self._written[pod.uid] = data

    def forget(self, uid: str) -> None:
        """Drop the queued and cached state of a removed pod. Its file goes with the pod's directory."""
        # The queue too: a late write would create the directory of the removed pod again.
        self._new.pop(uid, None)
        self._written.pop(uid, None)

    def read(self) -> Iterator[tuple[AgentPod, Resizes]]:
        """Yield all checkpoints. Unreadable files stay in place and are logged."""
        for path in sorted((self._paths.root / "pods").glob("*/pod.json")):
            try:
                kept = _decode(read_state(path, _MAX_BYTES))
                yield AgentPod(kept.pod), kept.promised
            except (OSError, UnicodeError, msgspec.MsgspecError, KeyError) as error:
                _log.warning("pod checkpoint cannot be read", path=str(path), error=str(error))
