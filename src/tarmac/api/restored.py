"""What nodes and people say to the server after its store was restored from a backup that is older than what runs.

    POST /tarmac/v1/nodes/NAME/running   a node: what runs here, and which pods wait to be started
    GET  /tarmac/v1/restored/            people: what runs that the store does not know so
    POST /tarmac/v1/restored/            people: keep it, or end it

A pod that runs while the store has none of its name, has it under another uid, or on another node, is a restored
conflict. Until somebody decides, it runs on, and no pod of that name is started anywhere.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from tarmac.api.schema import JsonObject

RESTORES: Final = ("tarmac/restored", "last")
"""Bucket and name of what a restore leaves in the store: when it was (`time`)."""
NODES_PATH: Final = "/tarmac/v1/nodes/"
RESTORED_PATH: Final = "/tarmac/v1/restored/"
REASON: Final = "RestoredConflict"
"""As the catalogue of reasons has it."""


def running_path(node: str) -> str:
    """Where a node tells what runs."""
    return f"{NODES_PATH}{node}/running"


class RunningReport(msgspec.Struct):
    """A node's word."""

    restored: str  # the time of the restore that it answers to, as its Node has it
    pods: list[dict[str, Any]] = []  # as the node keeps them, with their last statuses
    waiting: list[str] = []  # NAMESPACE/NAME of pods that it would start


class RunningAnswer(msgspec.Struct):
    """The server's."""

    settled: bool  # every node that is there has told what it runs
    held: list[str] = []  # of those that wait: names that something else has
    remove: list[str] = []  # uids of pods that somebody has decided against


class RestoredDecision(msgspec.Struct):
    """What somebody has decided about one conflict."""

    action: str  # adopt or remove
    namespace: str
    name: str
    node: str = ""  # needed where the name runs on several


def difference(stored: JsonObject | None, running: JsonObject, node: str) -> str:
    """In which way the store has another pod than the one that runs; empty when it has that one."""
    if stored is None:
        return "the restored store has no such pod"
    uid = stored["metadata"]["uid"]
    if uid != running["metadata"]["uid"]:
        return f"the restored store has it under another uid, {uid}"
    bound = stored["spec"].get("nodeName", "")
    if bound != node:
        return f"the restored store has it on node {bound}" if bound else "the restored store has it on no node"
    return ""
