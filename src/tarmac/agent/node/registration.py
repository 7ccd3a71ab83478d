"""Creates the Node object, or adopts an existing one.

An existing Node keeps all fields of other writers. At each start the agent corrects the labels that describe the
machine, those given by flag, and the annotation with its Tarmac version; taints are given to new Nodes only, and to the
one that the server creates when a bootstrap token is exchanged for a certificate.
"""

from __future__ import annotations

from tarmac import __version__
from tarmac.agent.config.agentconfig import AgentConfig
from tarmac.api.identities import TOKEN_OF_NODE, VERSION
from tarmac.api.schema import JsonObject
from tarmac.api.status import AlreadyExists, ApiError, Forbidden, NotFound
from tarmac.base.log import log
from tarmac.client.backoff import Backoff
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.client.targets.untyped import NODES

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 7.0
_log = log("agent")


def node_object(config: AgentConfig, architecture: str, status: JsonObject) -> JsonObject:
    """Return the Node to create. Its hostname is its name, as with a kubelet with --hostname-override."""
    described = {
        f"{prefix}kubernetes.io/{name}": value
        for prefix in ("", "beta.")
        for name, value in (("arch", architecture), ("os", "linux"))
    }
    labels = {"kubernetes.io/hostname": config.node_name, **described, **config.labels}
    node: JsonObject = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": config.node_name, "labels": labels, "annotations": {VERSION: __version__}},
        "spec": {},
        "status": status,
    }
    if taints := config.kubelet.register_with_taints:
        node["spec"]["taints"] = [_taint(each.key, each.value, each.effect) for each in taints]
    if config.kubelet.provider_id:
        node["spec"]["providerID"] = config.kubelet.provider_id
    return node


async def register(client: Client, node: JsonObject) -> JsonObject:
    """Register, retrying until it succeeds. Return the Node as the server has it."""
    backoff = Backoff(client.randomness, FIRST_PAUSE, LONGEST_PAUSE)
    while True:
        try:
            return await _try(client, node)
        except (ApiError, ClientError) as error:
            _log.warning("node registration failed, will retry", node=node["metadata"]["name"], why=str(error))
        await client.clock.sleep(backoff.next())


async def _try(client: Client, node: JsonObject) -> JsonObject:
    nodes, name = client.resource(NODES), node["metadata"]["name"]
    try:
        created = await nodes.create(node)
    except (AlreadyExists, Forbidden) as refusal:
        # Also when it is forbidden: a Node made by an administrator is adopted by a node that may not create one.
        try:
            # Read, not assumed: the Node may have been deleted between the two requests.
            existing = await nodes.get(name)
        except NotFound:
            raise refusal from None  # forbidden, and there is no Node
    else:
        _log.info("node registered", node=name)
        return created
    _log.info("node exists already", node=name)
    patch = _missing(node, existing)
    return await nodes.patch(name, patch, type="strategic") if patch else existing


def _missing(node: JsonObject, existing: JsonObject) -> JsonObject:
    """Return a patch with the wrong labels and, for a Node that the server created for this node, its spec."""
    have = existing["metadata"].get("labels") or {}
    labels = {key: value for key, value in node["metadata"]["labels"].items() if have.get(key) != value}
    patch: JsonObject = {"metadata": {"labels": labels}} if labels else {}
    notes, wanted = existing["metadata"].get("annotations") or {}, node["metadata"].get("annotations") or {}
    if other := {key: value for key, value in wanted.items() if notes.get(key) != value}:
        patch.setdefault("metadata", {})["annotations"] = other
    awaited = TOKEN_OF_NODE in notes
    if awaited and node["spec"] and not any(((existing.get("status") or {}).get("nodeInfo") or {}).values()):
        known = (existing.get("spec") or {}).get("taints") or []
        # Added to the known ones: administrators may have tainted the Node before this agent started.
        own = [each for each in node["spec"].get("taints") or () if each not in known]
        patch["spec"] = {**node["spec"], "taints": [*known, *own]}
    return patch


def _taint(key: str, value: str, effect: str) -> JsonObject:
    return {"key": key, "effect": effect, **({"value": value} if value else {})}
