"""Environment variables: the sources of their values, and the errors for missing ones."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tarmac.agent.environment.expansion import expand
from tarmac.agent.environment.variables import ConfigMissing, PodEnvironment, environment
from tarmac.agent.model.pod import AgentPod
from tarmac.api.schema import JsonObject
from tarmac.volumes.fake import FakeSources

SERVICE: JsonObject = {
    "metadata": {"name": "my-db", "namespace": "shop"},
    "spec": {"clusterIP": "10.96.0.9", "ports": [{"name": "sql", "port": 5432, "protocol": "TCP"}]},
}
MASTER: JsonObject = {
    "metadata": {"name": "kubernetes", "namespace": "default"},
    "spec": {"clusterIP": "10.96.0.1", "ports": [{"name": "https", "port": 443}]},
}
HEADLESS: JsonObject = {
    "metadata": {"name": "none", "namespace": "shop"},
    "spec": {"clusterIP": "None", "ports": [{"port": 1}]},
}


def pod(links: bool = False, **container: Any) -> AgentPod:
    made = {"name": "main", "image": "app", **container}
    return AgentPod(
        {
            "metadata": {
                "name": "web",
                "namespace": "shop",
                "uid": "u1",
                "labels": {"app": "web", "tier": 'a"b'},
                "annotations": {"note": "hi"},
            },
            "spec": {
                "containers": [made],
                "nodeName": "n1",
                "serviceAccountName": "robot",
                "enableServiceLinks": links,
            },
        }
    )


async def variables(pod: AgentPod, sources: FakeSources | None = None) -> dict[str, str]:
    surroundings = PodEnvironment(
        ("10.0.0.5", "fd00::5"), ("192.0.2.1",), {"cpu": "3500m", "memory": "4Gi"}, (SERVICE, MASTER, HEADLESS)
    )
    found = await environment(pod, pod.containers[0], sources or FakeSources(), surroundings)
    assert len(dict(found)) == len(found), "each name once"
    return dict(found)


def values(**references: JsonObject) -> list[JsonObject]:
    return [{"name": name, "valueFrom": source} for name, source in references.items()]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(A)-$(B)", "1-2"),
        ("$$(A)", "$(A)"),
        ("$(NONE)", "$(NONE)"),
        ("$A $(A", "$A $(A"),
        ("$$$(A)", "$1"),
    ],
)
def test_references_are_expanded(text: str, expected: str) -> None:
    assert expand(text, {"A": "1"}, {"B": "2"}) == expected


async def test_fields_of_the_pod() -> None:
    paths = {
        "NAME": "metadata.name",
        "NODE": "spec.nodeName",
        "ACCOUNT": "spec.serviceAccountName",
        "IP": "status.podIP",
        "IPS": "status.podIPs",
        "HOST": "status.hostIP",
        "LABEL": "metadata.labels['app']",
        "NOTE": "metadata.annotations['note']",
    }
    env = values(**{name: {"fieldRef": {"fieldPath": path}} for name, path in paths.items()})
    found = await variables(pod(env=env))
    assert found["NAME"] == "web"
    assert found["NODE"] == "n1"
    assert found["ACCOUNT"] == "robot"
    assert (found["IP"], found["IPS"], found["HOST"]) == ("10.0.0.5", "10.0.0.5,fd00::5", "192.0.2.1")
    assert (found["LABEL"], found["NOTE"]) == ("web", "hi")


async def test_resources_in_units_of_the_divisor() -> None:
    resources = {"limits": {"cpu": "1500m"}, "requests": {"memory": "100Mi"}}
    env = values(
        CPU={"resourceFieldRef": {"resource": "limits.cpu"}},
        MILLI={"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}},
        MEMORY={"resourceFieldRef": {"resource": "requests.memory", "divisor": "1Mi"}},
        LIMIT={"resourceFieldRef": {"resource": "limits.memory"}},
    )
    found = await variables(pod(env=env, resources=resources))
    assert (found["CPU"], found["MILLI"], found["MEMORY"]) == ("2", "1500", "100")
    assert found["LIMIT"] == str(4 << 30), "without a limit, the node's memory"


async def test_config_maps_and_secrets() -> None:
    sources = FakeSources()
    sources.config_maps["shop/settings"] = {"data": {"colour": "red", "SIZE": "3"}}
    sources.secrets["shop/key"] = {"data": {"value": base64.b64encode(b"hidden").decode()}}
    env_from = [{"prefix": "C_", "configMapRef": {"name": "settings"}}, {"secretRef": {"name": "key"}}]
    env = [
        *values(COLOUR={"configMapKeyRef": {"name": "settings", "key": "colour"}}),
        *values(KEY={"secretKeyRef": {"name": "key", "key": "value"}}),
        {"name": "C_SIZE", "value": "$(C_SIZE)0 $(KEY)"},
    ]
    found = await variables(pod(env=env, envFrom=env_from), sources)
    assert found["C_colour"] == found["COLOUR"] == "red"
    assert found["value"] == found["KEY"] == "hidden"
    assert found["C_SIZE"] == "30 hidden", "`env` overrides `envFrom`"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"configMapKeyRef": {"name": "no", "key": "k"}}, 'configmap "no" not found'),
        ({"secretKeyRef": {"name": "no", "key": "k"}}, 'secret "no" not found'),
        ({"configMapKeyRef": {"name": "yes", "key": "k"}}, "couldn't find key k in ConfigMap shop/yes"),
        ({"secretKeyRef": {"name": "yes", "key": "k"}}, "couldn't find key k in Secret shop/yes"),
        ({"fieldRef": {"fieldPath": "spec.hostname"}}, "unsupported fieldPath: spec.hostname"),
    ],
)
async def test_a_missing_source_is_named(source: JsonObject, message: str) -> None:
    sources = FakeSources(config_maps={"shop/yes": {"data": {}}}, secrets={"shop/yes": {"data": {}}})
    with pytest.raises(ConfigMissing) as caught:
        await variables(pod(env=values(X=source)), sources)
    assert str(caught.value) == message


async def test_an_optional_source_may_be_missing() -> None:
    env = values(A={"configMapKeyRef": {"name": "no", "key": "k", "optional": True}})
    env_from = [{"secretRef": {"name": "no", "optional": True}}]
    assert "A" not in await variables(pod(env=env, envFrom=env_from))


async def test_services_are_linked_on_request_and_the_server_always() -> None:
    found = await variables(pod())
    assert found["KUBERNETES_SERVICE_HOST"] == "10.96.0.1"
    assert found["KUBERNETES_SERVICE_PORT_HTTPS"] == "443"
    assert "MY_DB_SERVICE_HOST" not in found
    found = await variables(pod(links=True, env=[{"name": "URL", "value": "db://$(MY_DB_SERVICE_HOST)"}]))
    assert found["MY_DB_SERVICE_PORT_SQL"] == "5432"
    assert found["MY_DB_PORT_5432_TCP"] == "tcp://10.96.0.9:5432"
    assert found["URL"] == "db://10.96.0.9"
    assert not any(name.startswith("NONE") for name in found)
