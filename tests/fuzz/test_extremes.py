"""Extreme numbers, quantities, times and wrong types in every field, option and query: a response, and never a 5xx.

All of it goes through the whole control plane in this process: authentication, admission, validation, storage and
printing. Dry runs store no object where they have the same effect. Templates of Pods and of Instances are tried in one
kind each, in a soak in all kinds.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tarmac.api.catalog import build_catalog
from tarmac.api.identities import controller_user
from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.apps.control_plane import Address, Chosen, Running, control_plane
from tarmac.apps.layout import Layout
from tarmac.base.gates import WAY_IN
from tarmac.controllers.context import Settings
from tarmac.http.messages import Answer, Request, Response, StreamResponse
from tarmac.server.security.users import User
from tests.fuzz.extremes import INTEGERS, QUANTITIES, WRONG, base_of, encoded, extremes, places, with_value
from tests.fuzz.test_random_input import KUBERNETES_FAILS_TOO, collection
from tests.soak import SOAK
from tests.support.templates import is_repeated

ADMIN = User("admin", groups=("system:masters", "system:authenticated"))
DEPLOYMENT = User(controller_user("deployment"), groups=("system:masters", "system:authenticated"))
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
CREATED = [resource for resource in build_catalog() if "create" in resource.verbs]
# A wrong Binding gets a 500 without a reason from Kubernetes as well.
UNKIND = (*KUBERNETES_FAILS_TOO, b"target.name: ", b"target.kind: ")
CONTAINER = {"name": "a", "image": "registry.example/a:1"}
POD: JsonObject = {"metadata": {"name": "a"}, "spec": {"containers": [CONTAINER]}}
INTEGER_TEXTS = [
    "0", "-1", "9223372036854775807", "9223372036854775808", "9" * 1000, "1e400", "NaN", "1.5", "", "٣", "+1", "0x1",
]  # fmt: skip


class Asker:
    """Calls the server as the in-process transport does, and records its failures."""

    def __init__(self, running: Running) -> None:
        self._handle = running.server.handle
        self.failures: list[str] = []

    async def __call__(self, method: str, url: str, body: Any = None, *, user: User = ADMIN, **headers: str) -> Answer:
        path, _, query = url.partition("?")
        data = b"" if body is None else body if isinstance(body, bytes) else encoded(body)
        names = {"content-type": "application/json", "user-agent": "tests/1"}
        names |= {name.replace("_", "-"): value for name, value in headers.items()}
        answer = self._handle(Request(method, path, query, names, data, user=user))
        if inspect.isawaitable(answer):
            answer = await answer
        self._look(answer, f"{method} {url[:200]} {data[:600]!r}")
        return answer

    def _look(self, answer: Answer, asked: str) -> None:
        if not isinstance(answer, Response) or answer.status < 500:
            return
        text = answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)
        if not any(words in text for words in UNKIND):
            self.failures.append(f"{asked}\n→ {answer.status} {text[:300].decode()}")

    def must_have_succeeded(self) -> None:
        """None of the responses was a server error."""
        assert not self.failures, f"{len(self.failures)} failures, the first of them:\n" + "\n".join(self.failures[:5])


@pytest.fixture
async def ask(tmp_path: Path) -> AsyncIterator[Asker]:
    layout = Layout(tmp_path, tmp_path / "pki", tmp_path / "secrets.key", "memory://")
    chosen = Chosen("certificates", Settings(way_in=True))
    async with control_plane(layout, Address("127.0.0.1", 0), chosen, features=frozenset({WAY_IN})) as running:
        asker = Asker(running)
        account = await asker("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
        assert isinstance(account, Response)
        assert account.status == 201
        yield asker
        asker.must_have_succeeded()


def cases(resource: Resource, base: JsonObject) -> Iterator[JsonObject]:
    """The object with each field wrong in each way; metadata, which all have, for two kinds."""
    told = ("apiVersion", "kind") if resource.kind in ("ConfigMap", "Network") else ("apiVersion", "kind", "metadata")
    for path, schema in places(resource.schema):
        if path[0] not in told and (SOAK or not is_repeated(resource.plural, path)):
            for value in (*extremes(schema), *WRONG):
                yield with_value(resource.schema, base, path, value)


@pytest.mark.soak(minutes=2)
@pytest.mark.timeout(600 if SOAK else 120)
@pytest.mark.parametrize("group", sorted({resource.group for resource in CREATED}), ids=lambda group: group or "core")
async def test_every_field_of_every_kind(group: str, ask: Asker) -> None:
    """The response is a Table, so that accepted objects are printed as well."""
    for resource in CREATED:
        if resource.group != group:
            continue
        base, url = base_of(resource), f"{collection(resource)}?dryRun=All"
        user = DEPLOYMENT if resource.plural == "instances" else ADMIN
        right = await ask("POST", url, base, user=user, accept=TABLE)
        assert isinstance(right, Response)
        assert right.status in (201, 404), (resource.plural, right.body)  # 404: a binding of a missing pod
        for body in cases(resource, base):
            await ask("POST", url, body, user=user, accept=TABLE)


@pytest.mark.timeout(120)
async def test_every_field_of_every_status(ask: Asker) -> None:
    for resource in CREATED:
        if "status" not in [subresource.name for subresource in resource.subresources]:
            continue
        base, url = base_of(resource), collection(resource)
        user = DEPLOYMENT if resource.plural == "instances" else ADMIN
        made = await ask("POST", url, base, user=user)
        assert isinstance(made, Response)
        assert made.status == 201, (resource.plural, made.body)
        status = f"{url}/{base['metadata']['name']}/status?dryRun=All"
        for path, schema in places(resource.schema.fields["status"], ("status",)):
            for value in (*extremes(schema), *WRONG):
                patch = with_value(resource.schema, {}, path, value)
                await ask("PATCH", status, patch, content_type="application/merge-patch+json", accept=TABLE)


NUMBERS_IN_QUERIES = {
    "limit": "GET /api/v1/namespaces/default/pods",
    "timeoutSeconds": "GET /api/v1/namespaces/default/pods",
    "resourceVersion": "GET /api/v1/namespaces/default/pods",
    "continue": "GET /api/v1/namespaces/default/pods",
    "gracePeriodSeconds": "DELETE /api/v1/namespaces/default/pods/a",
    "tailLines": "GET /api/v1/namespaces/default/pods/a/log",
    "sinceSeconds": "GET /api/v1/namespaces/default/pods/a/log",
    "sinceTime": "GET /api/v1/namespaces/default/pods/a/log",
    "limitBytes": "GET /api/v1/namespaces/default/pods/a/log",
    "ports": "GET /api/v1/namespaces/default/pods/a/portforward",
    "port": "POST /api/v1/namespaces/default/pods/a/portforward",
}


@pytest.mark.parametrize("name", NUMBERS_IN_QUERIES)
async def test_numbers_in_queries(name: str, ask: Asker) -> None:
    method, path = NUMBERS_IN_QUERIES[name].split()
    for text in [*INTEGER_TEXTS, "0001-01-01T00:00:00Z", "9999-12-31T23:59:59-23:59", "-1,0,65536"]:
        await ask("POST", "/api/v1/namespaces/default/pods", POD)
        answer = await ask(method, f"{path}?{name}={quote(text)}")
        assert isinstance(answer, Response | StreamResponse)
        if name in ("limit", "timeoutSeconds", "resourceVersion"):
            await _watch(ask, path, f"{name}={quote(text)}")


async def _watch(ask: Asker, path: str, query: str) -> None:
    """The first events of a watch."""
    answer = await ask("GET", f"{path}?watch=true&{query}")
    if isinstance(answer, StreamResponse) and answer.abandon is not None:
        answer.abandon()


async def test_numbers_of_deletions(ask: Asker) -> None:
    """The numbers are in the options and in the pod itself; afterwards it can still be deleted, with a valid end."""
    url = "/api/v1/namespaces/default/pods"
    for value in (*INTEGERS, *WRONG):
        await ask("POST", url, POD)
        await ask(
            "PATCH", f"{url}/a/status", {"status": {"phase": "Running"}}, content_type="application/merge-patch+json"
        )
        await ask("DELETE", f"{url}/a", {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": value})
        await ask("GET", url, accept=TABLE)
        await ask("DELETE", f"{url}/a?gracePeriodSeconds=5")
        await ask("DELETE", f"{url}/a?gracePeriodSeconds=0")
        own = {**POD, "spec": {**POD["spec"], "terminationGracePeriodSeconds": value, "nodeName": "a"}}
        await ask("POST", url, own)
        await ask("DELETE", f"{url}/a")
        await ask("POST", f"{url}/a/eviction", _eviction({"gracePeriodSeconds": value}))
        await ask("DELETE", f"{url}/a?gracePeriodSeconds=0")


def _eviction(options: JsonObject) -> JsonObject:
    return {"kind": "Eviction", "apiVersion": "policy/v1", "metadata": {"name": "a"}, "deleteOptions": options}


async def test_options_of_the_wrong_type(ask: Asker) -> None:
    url = "/api/v1/namespaces/default/pods"
    fields = ["gracePeriodSeconds", "preconditions", "propagationPolicy", "orphanDependents", "dryRun", "kind"]
    for field in [*fields, "apiVersion", "ignoreStoreReadErrorWithClusterBreakingPotential"]:
        for value in WRONG:
            await ask("POST", url, POD)
            await ask("POST", f"{url}/a/eviction", _eviction({field: value}))
            await ask("POST", f"{url}/a/eviction", {**_eviction({}), field: value})
            await ask("DELETE", f"{url}/a", {"kind": "DeleteOptions", "apiVersion": "v1", field: value})
            await ask("DELETE", url, {"kind": "DeleteOptions", "apiVersion": "v1", field: value})
            await ask(
                "DELETE", url, {"kind": "DeleteOptions", "preconditions": {"uid": value, "resourceVersion": value}}
            )


async def test_numbers_of_scales_and_tokens(ask: Asker) -> None:
    deployment = next(resource for resource in CREATED if resource.plural == "workloaddeployments")
    await ask("POST", collection(deployment), base_of(deployment))
    scale = f"{collection(deployment)}/extreme/scale"
    token = "/api/v1/namespaces/default/serviceaccounts/default/token"
    for value in (*INTEGERS, *WRONG):
        for field in ("spec", "metadata", "status"):
            await ask("PUT", f"{scale}?dryRun=All", _scale({field: value}))
        await ask("PUT", f"{scale}?dryRun=All", _scale({"spec": {"replicas": value}}))
        patch = {"spec": {"replicas": value}}
        await ask("PATCH", f"{scale}?dryRun=All", patch, content_type="application/merge-patch+json")
        bound = {"boundObjectRef": {"kind": "Pod", "name": value, "uid": value}}
        fields = ("expirationSeconds", "audiences", "boundObjectRef")
        for spec in (value, bound, {"audiences": [value]}, *({field: value} for field in fields)):
            await ask("POST", token, {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": spec})


def _scale(fields: JsonObject) -> JsonObject:
    right = {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {"name": "extreme", "namespace": "default"}}
    return {**right, "spec": {"replicas": 1}, **fields}


HERE = "/api/v1/namespaces/default"
SIDES = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
SIZES = [size for size in QUANTITIES if isinstance(size, str)]


def _pod(resources: JsonObject) -> JsonObject:
    return {"metadata": {"name": "a"}, "spec": {"containers": [{**CONTAINER, "resources": resources}]}}


def _limits(*items: JsonObject) -> JsonObject:
    return {"metadata": {"name": "a"}, "spec": {"limits": items}}


@pytest.mark.parametrize("bound", ["1e1000", "1n", "9" * 1000, "0", "9Ei", "9e999"], ids=lambda text: text[:6])
async def test_limits_and_quotas_of_any_size(bound: str, ask: Asker) -> None:
    """A LimitRange and a quota of this size, and pods and claims of each size under them."""
    pods, claims = f"{HERE}/pods?dryRun=All", f"{HERE}/persistentvolumeclaims?dryRun=All"
    for side in SIDES:
        kinds = ("Container",) if side.startswith("default") else ("Container", "Pod")
        await ask("POST", f"{HERE}/limitranges", _limits(*[{"type": kind, side: {"memory": bound}} for kind in kinds]))
        for size in SIZES:
            for other in ("1n", "1", "1e1000"):
                await ask("POST", pods, _pod({"limits": {"memory": size}, "requests": {"memory": other}}))
        await ask("DELETE", f"{HERE}/limitranges/a")
    hard = {"requests.memory": bound, "pods": bound, "requests.storage": bound}
    await ask("POST", f"{HERE}/limitranges", _limits({"type": "PersistentVolumeClaim", "max": {"storage": bound}}))
    await ask("POST", f"{HERE}/resourcequotas", {"metadata": {"name": "a"}, "spec": {"hard": hard}})
    for size in SIZES:
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
        await ask("POST", claims, {"metadata": {"name": "a"}, "spec": claim})
        await ask("POST", pods, _pod({"requests": {"memory": size}}))


async def test_a_grace_period_longer_than_time_itself_ends_at_the_last_moment_there_is(ask: Asker) -> None:
    """The period can be shortened, too: a client without a period of its own must be able to start the deletion."""
    spec = {**POD["spec"], "nodeName": "a", "terminationGracePeriodSeconds": 2**63 - 1}
    await ask("POST", f"{HERE}/pods", {**POD, "spec": spec})
    marked = _json(await ask("DELETE", f"{HERE}/pods/a"))["metadata"]
    assert marked["deletionGracePeriodSeconds"] == (2**63 - 1) // 10**9
    assert marked["deletionTimestamp"] > "2300"
    shortened = _json(await ask("DELETE", f"{HERE}/pods/a?gracePeriodSeconds=5"))["metadata"]
    assert shortened["deletionGracePeriodSeconds"] == 5


async def test_a_subject_with_no_value_for_an_extra_is_a_subject(ask: Asker) -> None:
    spec = {"user": "a", "extra": {"scopes": None}, "resourceAttributes": {"verb": "get", "resource": "pods"}}
    answer = await ask("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": spec})
    assert _json(answer)["status"] == {"allowed": False}


async def test_a_ratio_beyond_a_float_is_refused_with_a_number(ask: Asker) -> None:
    await ask("POST", f"{HERE}/limitranges", _limits({"type": "Container", "maxLimitRequestRatio": {"memory": "2"}}))
    refused = await ask("POST", f"{HERE}/pods", _pod({"limits": {"memory": "1e1000"}, "requests": {"memory": "1"}}))
    assert "memory max limit to request ratio per Container is 2, but provided ratio is " in _json(refused)["message"]


def _json(answer: Answer) -> JsonObject:
    assert isinstance(answer, Response)
    assert isinstance(answer.body, bytes)
    return json.loads(answer.body)
