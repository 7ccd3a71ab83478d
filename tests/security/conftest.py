"""A store with the default policy, and the gates in front of it, under a clock that stands still."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import uvloop

from tarmac.base.clock import ManualClock
from tarmac.base.randomness import Randomness
from tarmac.server.requestinfo import RequestInfo
from tarmac.server.security.authentication.authenticate import Authenticator
from tarmac.server.security.authorization.authorize import Authorizer
from tarmac.server.security.authorization.defaults import ensure_defaults
from tarmac.server.security.certificates.pki import Pki
from tarmac.server.security.tokens.jwt import SigningKey
from tarmac.server.security.tokens.serviceaccounts import ServiceAccountTokens
from tarmac.server.security.tokens.tokenrequests import TokenIssuer
from tarmac.server.security.users import User
from tarmac.store.memory import MemoryStore

RBAC = "rbac.authorization.k8s.io"


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> dict[str, Any]:
    return {"uvloop": uvloop.new_event_loop}


class World:
    """All admission and authorization checks of a request."""

    def __init__(self, store: MemoryStore, clock: ManualClock, pki: Pki) -> None:
        self.store = store
        self.clock = clock
        self.pki = pki
        self.randomness = Randomness(1)
        self.authorizer = Authorizer(store)
        self.tokens = ServiceAccountTokens(store, SigningKey(pki.token_key_file.read_bytes()), clock)
        self.issuer = TokenIssuer(store, self.tokens, clock, self.randomness)
        self.authenticator = Authenticator(store, self.tokens, self.authorizer, clock)

    async def put(self, bucket: str, obj: dict[str, Any]) -> None:
        """Create or replace an object."""
        metadata = obj["metadata"]
        name = f"{metadata['namespace']}/{metadata['name']}" if "namespace" in metadata else metadata["name"]
        value = msgspec.json.encode({"metadata": metadata, **obj})
        entry = self.store.head(bucket, name)
        if entry is None:
            await self.store.create(bucket, name, value)
        else:
            await self.store.update(bucket, name, value, entry.revision)

    async def delete(self, bucket: str, name: str) -> None:
        entry = self.store.head(bucket, name)
        assert entry is not None
        await self.store.delete(bucket, name, entry.revision)

    async def bind(self, role: str, *subjects: dict[str, Any], namespace: str = "", kind: str = "ClusterRole") -> None:
        """Bind a role; the binding is named after it."""
        metadata = {"name": role, **({"namespace": namespace} if namespace else {})}
        reference = {"apiGroup": RBAC, "kind": kind, "name": role}
        bucket = f"{RBAC}/rolebindings" if namespace else f"{RBAC}/clusterrolebindings"
        await self.put(bucket, {"metadata": metadata, "roleRef": reference, "subjects": list(subjects)})

    def may(self, user: User, verb: str, resource: str, **more: str) -> bool:
        return self.authorizer.refuses(user, about(verb, resource, **more), more.get("query", "")) is None


def about(verb: str, resource: str, namespace: str = "", name: str = "", group: str = "", **more: str) -> RequestInfo:
    """A request about `pods` or `pods/log`."""
    plural, _, subresource = resource.partition("/")
    return RequestInfo(verb, "", True, group, "v1", plural, subresource, namespace, name)


def user(name: str, *groups: str) -> User:
    return User(name, groups=(*groups, "system:authenticated"))


@pytest.fixture(scope="session")
def pki_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pki")


@pytest.fixture
async def world(pki_directory: Path) -> AsyncIterator[World]:
    clock = ManualClock()
    store = MemoryStore()
    await store.start()
    await ensure_defaults(store, clock, Randomness(2))
    made = World(store, clock, Pki(pki_directory, clock))
    made.authorizer.start()
    yield made
    made.authorizer.stop()
    await store.close()
