"""Messages about pods that are newer than the store, after it was restored from a backup.

    POST /tarmac/v1/nodes/NAME/running   a node reports its running pods, and the pods that it holds back
    GET  /tarmac/v1/restored/            a user lists the conflicts between running pods and the store
    POST /tarmac/v1/restored/            a user decides on a conflict: keep the pod, or end it

A running pod is a restored conflict if the store has no pod of its name, has it under another uid, or on another node.
Until a user decides, the pod keeps running, and no pod of that name is started anywhere.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from tarmac.api.schema import JsonObject

RESTORES: Final = ("tarmac/restored", "last")
"""Bucket and name of the record that a restore leaves in the store; its field `time` is the time of the restore."""
NODES_PATH: Final = "/tarmac/v1/nodes/"
RESTORED_PATH: Final = "/tarmac/v1/restored/"
REASON: Final = "RestoredConflict"
"""The reason in the catalogue of reasons."""


def running_path(node: str) -> str:
    """Return the path where a node reports its running pods."""
    return f"{NODES_PATH}{node}/running"


class RunningReport(msgspec.Struct):
    """A node's report."""

    restored: str  # the time of the restore that the report answers, as in its Node
    pods: list[dict[str, Any]] = []  # the pods that run, as the node has them, with their last statuses
    waiting: list[str] = []  # NAMESPACE/NAME of pods that it would start


class RunningAnswer(msgspec.Struct):
    """The server's response."""

    settled: bool  # every present node has reported its running pods
    held: list[str] = []  # those of `waiting` whose name another running pod has
    remove: list[str] = []  # uids of pods that a user has decided to remove


class RestoredDecision(msgspec.Struct):
    """A user's decision about one conflict."""

    action: str  # adopt or remove
    namespace: str
    name: str
    node: str = ""  # required where several nodes run a pod of that name


def difference(stored: JsonObject | None, running: JsonObject, node: str) -> str:
    """Return the difference between the stored and the running pod, or "" if they are the same pod."""
    if stored is None:
        return "the restored store has no such pod"
    uid = stored["metadata"]["uid"]
    if uid != running["metadata"]["uid"]:
        return f"the restored store has it under another uid, {uid}"
    bound = stored["spec"].get("nodeName", "")
    if bound != node:
        return f"the restored store has it on node {bound}" if bound else "the restored store has it on no node"
    return ""
