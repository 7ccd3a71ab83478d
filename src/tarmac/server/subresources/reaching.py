"""`NAME/why?reach=TARGET&port=P`: computes whether an instance or pod can reach a target.

The user needs the right to get `why` of the sender, and to get the target (with `both`, its `why` too). Policies that
the user may not list are not named. An address that an object of another namespace has, which the user may not get, is
answered for like an address that no object has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from tarmac.api.compute.names import API_VERSION
from tarmac.api.compute.names import GROUP as COMPUTE
from tarmac.api.egress.names import GROUP as SUBMARINER
from tarmac.api.networking.names import GROUP as NETWORKING
from tarmac.api.status import BadRequest, Forbidden, NotFound
from tarmac.base.cooperative import CooperativeWork
from tarmac.decide.reach.question import BadQuestion, ReachQuestion, ReachTarget, question_of
from tarmac.decide.reach.reachability import NoSuchTarget, objects_at, reachability
from tarmac.decide.reach.world import KUBERNETES_POLICIES, LOOKED_AT, POLICIES
from tarmac.decide.snapshot.snapshot import Objects, Snapshot
from tarmac.http.messages import Request, Response
from tarmac.server.printing.answers import document
from tarmac.server.requestinfo import RequestInfo, boolean
from tarmac.server.security.authorization.authorize import refusal
from tarmac.server.security.users import User
from tarmac.server.storage.resourcestorage import ResourceStorage
from tarmac.server.subresources.offloading import run_in_thread, snapshot

Refuses = Callable[[User, RequestInfo], str | None]
"""Returns the reason why a user may not do something; None if allowed."""

_POLICIES = ((NETWORKING, "v1alpha", POLICIES), ("networking.k8s.io", "v1", KUBERNETES_POLICIES))

_RESOURCES = {
    "instance": (COMPUTE, "instances"),
    "pod": ("", "pods"),
    "service": ("", "services"),
    "externalservice": (SUBMARINER, "externalservices"),
}


async def reach(storage: ResourceStorage, refuses: Refuses, request: Request) -> Response:
    """Return the Reachability response. Raises BadRequest, Forbidden, NotFound."""
    info = request.info
    if info.resource not in ("instances", "pods"):
        raise BadRequest(f"reach: only instances and pods reach something, {info.resource} do not")
    sender = ReachTarget("instance" if info.resource == "instances" else "pod", info.namespace, info.name)
    if storage.store.get(storage.bucket, storage.key(info.namespace, info.name)) is None:
        raise storage.not_found(info.name)
    question = _question(request)
    _check_rights(refuses, request.user, question)
    world = snapshot(storage, LOOKED_AT)
    hidden: set[tuple[str, str]] = set()
    if question.target.kind == "address":
        address = question.target.name
        found = await run_in_thread(world, lambda each: objects_at(each, sender, address))
        hidden = _hidden(refuses, request.user, info.namespace, address, found)
    # Check rights here, on the event loop: the authorizer's state is not thread-safe.
    spaces = {
        (group, version, key.partition("/")[0])
        for group, version, policies in _POLICIES
        for key in world.objects[policies.resource]
    }
    hidden_spaces = await storage.services.runner.done(_hidden_spaces(refuses, request.user, spaces))

    def answer(_: Snapshot) -> Response:
        found = reachability(_without(world, hidden), sender, question, lambda space: space not in hidden_spaces)
        return document(request, {"kind": "Reachability", "apiVersion": API_VERSION, **msgspec.to_builtins(found)})

    try:
        return await run_in_thread(world, answer)  # encoded in the thread too: a Service may have thousands of paths
    except BadQuestion as error:
        raise BadRequest(str(error)) from error
    except NoSuchTarget as error:
        raise _not_found(error.target) from error


def _hidden(
    refuses: Refuses, user: User, own: str, address: str, found: Iterable[tuple[str, str]]
) -> set[tuple[str, str]]:
    """Return the objects at an address that the user may not get, as bucket and key. Raises Forbidden for own ones."""
    hidden: set[tuple[str, str]] = set()
    for plural, key in found:
        namespace, _, name = key.partition("/")
        if refuses(user, RequestInfo("get", "", True, "", "v1", plural, "", namespace, name)) is None:
            continue
        if namespace == own:
            raise Forbidden(f"{address} is of this namespace, in which you may not get {plural}")
        hidden.add((f"core/{plural}", key))
    return hidden


def _without(world: Objects, hidden: set[tuple[str, str]]) -> Objects:
    objects = dict(world.objects)
    for bucket, gone in hidden:
        objects[bucket] = {key: raw for key, raw in objects[bucket].items() if key != gone}
    return Objects(world.now, objects)


def _question(request: Request) -> ReachQuestion:
    try:
        return question_of(
            request.param("reach"),
            request.param("port"),
            request.param("protocol"),
            request.info.namespace,
            both=bool(boolean(request, "both")),
        )
    except BadQuestion as error:
        raise BadRequest(str(error)) from error


def _check_rights(refuses: Refuses, user: User, question: ReachQuestion) -> None:
    target = question.target
    if target.kind == "address":
        return
    group, plural = _RESOURCES[target.kind]
    for subresource in ("", "why") if question.both else ("",):
        asked = RequestInfo("get", "", True, group, "", plural, subresource, target.namespace, target.name)
        why = refuses(user, asked)
        if why is not None:
            raise refusal(user, asked, why)


def _hidden_spaces(refuses: Refuses, user: User, spaces: Iterable[tuple[str, str, str]]) -> CooperativeWork[set[str]]:
    """Return the namespaces with policies of a kind that the user may not list."""
    found: set[str] = set()
    for group, version, namespace in spaces:
        asked = RequestInfo("list", "", True, group, version, "networkpolicies", "", namespace)
        if refuses(user, asked) is not None:
            found.add(namespace)
        yield
    return found


def _not_found(target: ReachTarget) -> NotFound:
    group, plural = _RESOURCES[target.kind]
    kind = f"{plural}.{group}" if group else plural
    details = {"name": target.name, "group": group, "kind": plural}
    return NotFound(f'{kind} "{target.name}" not found in namespace "{target.namespace}"', details=details)
