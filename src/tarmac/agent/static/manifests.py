"""Static pods: every file of a directory is a Pod that this node runs, with or without the server.

A pod's uid is derived from the file's content and the node's name: a changed file is a new pod. The directory is
polled; unreadable files and files without a Pod are logged and skipped.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import yaml

from tarmac.agent.model.pod import CONFIG_HASH, CONFIG_SOURCE, AgentPod
from tarmac.api.kubernetes.core.pods.defaults import default_pod
from tarmac.api.schema import JsonObject
from tarmac.base.clock import Clock, rfc3339
from tarmac.base.log import log

INTERVAL = 20.0
CONFIG_SEEN = "kubernetes.io/config.seen"
_SUFFIXES = (".yaml", ".yml", ".json")
_log = log("static")


class Manifests:
    """The manifest directory of one node; None if there is none."""

    def __init__(self, folder: Path | None, node: str, clock: Clock, interval: float = INTERVAL) -> None:
        self._folder = folder
        self._node = node
        self._clock = clock
        self._interval = interval
        self._known: dict[str, AgentPod] = {}  # by the hash of a file's content
        self._refused: set[str] = set()
        self._read = asyncio.Event()

    async def read_once(self) -> None:
        """Wait until the directory has been read: before, a static pod may look like an orphan."""
        await self._read.wait()

    async def changes(self) -> AsyncIterator[list[AgentPod]]:
        """Yield the pods of the directory: initially, and after each change."""
        before: set[str] | None = None
        while True:
            pods = self.pods()
            now = {pod.uid for pod in pods}
            if now != before:
                yield pods
            before = now
            # After the yield, during which the pods get their workers: the sweep waits for this before it looks for
            # orphans.
            self._read.set()
            await self._clock.sleep(self._interval)

    def pods(self) -> list[AgentPod]:
        """Read the directory."""
        if self._folder is None or not self._folder.is_dir():
            return []
        # Names with a dot in front are drafts of editors and of tools that replace a file by a rename.
        files = [each for each in sorted(self._folder.iterdir()) if each.suffix in _SUFFIXES and each.name[0] != "."]
        found = [self._pod(each) for each in files]
        return [each for each in found if each is not None]

    def _pod(self, path: Path) -> AgentPod | None:
        try:
            content = path.read_bytes()
        except OSError as error:
            _log.warning("manifest cannot be read", path=str(path), error=str(error))
            return None
        digest = hashlib.md5(content + path.name.encode(), usedforsecurity=False).hexdigest()
        # Known by its content: a broken file is logged once, and decoded again only after a change.
        if digest in self._refused:
            return None
        if digest not in self._known:
            try:
                self._known[digest] = static_pod(content, digest, self._node, rfc3339(self._clock.now()))
            except (ValueError, KeyError, TypeError, AttributeError, yaml.YAMLError) as error:
                _log.warning("manifest is not a valid pod", path=str(path), error=str(error))
                self._refused.add(digest)
                return None
        return self._known[digest]


def static_pod(content: bytes, digest: str, node: str, seen: str) -> AgentPod:
    """Return the pod of a manifest, with the node's suffix and the server's defaults.

    Raises ValueError, KeyError, TypeError, AttributeError, and the errors of the YAML parser.
    """
    raw: JsonObject = yaml.safe_load(content)
    if raw.get("kind") != "Pod":
        raise ValueError("the manifest's kind is not Pod")
    # YAML has types that JSON lacks, such as dates: encoded once, they are texts as in every other Pod.
    raw = msgspec.json.decode(msgspec.json.encode(raw))
    metadata: JsonObject = raw["metadata"]
    metadata["name"] = f"{metadata['name']}-{node}".lower()
    metadata["namespace"] = metadata.get("namespace") or "default"
    metadata["uid"] = hashlib.md5(f"{digest}{node}".encode(), usedforsecurity=False).hexdigest()
    annotations = metadata.setdefault("annotations", {})
    annotations |= {CONFIG_SOURCE: "file", CONFIG_HASH: metadata["uid"], CONFIG_SEEN: seen}
    spec: JsonObject = raw["spec"]
    spec["nodeName"] = node
    spec.setdefault("tolerations", []).append({"operator": "Exists", "effect": "NoExecute"})
    raw.pop("status", None)
    default_pod(raw)
    return AgentPod(raw)
