"""Validation against the live system: types and cities from the store, and rights to use a network."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import msgspec
import pytest

from tarmac.api.compute.instancetype import built_in
from tarmac.api.schema import JsonObject
from tarmac.api.status import Invalid
from tarmac.server.admission.chain import Attributes
from tarmac.server.admission.references.workloadreferences import WorkloadReferences
from tarmac.server.lookup import StoreLookup
from tarmac.server.reader import Reader
from tarmac.server.requestinfo import RequestInfo
from tarmac.server.security.authorization.authorize import Authorizer
from tarmac.server.security.users import User
from tarmac.store.interface import Store
from tarmac.store.memory import MemoryStore
from tests.api.compute.making import C, N, P, T, admitted, causes, resource, workload

ANNA = User("anna", groups=("system:authenticated",))


async def put(store: Store, bucket: str, obj: JsonObject) -> None:
    await store.create(bucket, obj["metadata"]["name"], msgspec.json.encode({"metadata": obj["metadata"], **obj}))


@pytest.fixture
async def store() -> AsyncGenerator[Store]:
    made = MemoryStore()
    await made.start()
    for item in built_in():
        await put(made, "compute.datumapis.com/instancetypes", item)
    yield made
    await made.close()


async def test_without_any_location_no_place_is_refused(store: Store) -> None:
    assert causes(workload(), lookup=StoreLookup(Reader(store))) == []


async def test_places_and_types_come_from_the_store(store: Store) -> None:
    topology = {"topology.datum.net/city-code": "DFW"}
    dallas = {"metadata": {"name": "dfw"}, "spec": {"topology": topology}}
    await put(store, "networking.datumapis.com/locations", dallas)
    lookup = StoreLookup(Reader(store))
    assert lookup.locations() == {"dfw"}
    assert causes(workload(), lookup=lookup) == [f"NotSupported {P}.cityCodes[1]"]
    assert "datumcloud-d1-standard-2" in lookup.instance_types()


class Allowing(Authorizer):
    """Allows every user to use networks of these names."""

    def __init__(self, *names: str) -> None:
        self._names = names
        self.asked: list[RequestInfo] = []

    def refuses(self, user: User, info: RequestInfo, query: str = "") -> str | None:
        self.asked.append(info)
        return None if info.name in self._names else "no"


def attributes(new: JsonObject, old: JsonObject | None = None) -> Attributes:
    return Attributes("UPDATE" if old else "CREATE", resource("Workload"), "", "default", "web", new, old, ANNA)


TWO: dict[str, Any] = {N: [{"network": "default"}, {"network": {"name": "corp", "namespace": "it"}}]}


def test_the_author_needs_the_permission_to_use_every_network() -> None:
    authorizer = Allowing("default")
    with pytest.raises(Invalid) as refusal:
        WorkloadReferences(authorizer).validate(attributes(admitted(workload(TWO))))
    (cause,) = (refusal.value.details or {})["causes"]
    assert (cause["field"], cause["reason"]) == (f"{N}[1].network", "FieldValueForbidden")
    assert [(info.verb, info.resource, info.namespace, info.name) for info in authorizer.asked] == [
        ("use", "networks", "default", "default"),
        ("use", "networks", "it", "corp"),
    ]


def test_a_network_that_was_there_before_is_not_asked_about() -> None:
    obj = admitted(workload(TWO))
    authorizer = Allowing()
    WorkloadReferences(authorizer).validate(attributes(obj, obj))
    assert authorizer.asked == []


def test_the_author_must_be_able_to_read_the_data_that_is_given_to_containers() -> None:
    edits = {
        f"{C}[0].env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "a"}}}],
        f"{C}[1].envFrom": [{"configMapRef": {"name": "settings"}}, {"secretRef": {"name": "keys"}}],
        f"{T}.runtime.sandbox.imagePullSecrets": [{"name": "registry"}],
    }
    with pytest.raises(Invalid) as refusal:
        WorkloadReferences(Allowing("default", "registry")).validate(attributes(admitted(workload(edits))))
    causes = (refusal.value.details or {})["causes"]
    assert [cause["field"] for cause in causes] == [f"{T}.configmaps[settings]", f"{T}.secrets[keys]"]
