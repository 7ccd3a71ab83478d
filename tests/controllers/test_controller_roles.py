"""Rare writes of controllers under RBAC: each role permits all writes of its controller."""

from __future__ import annotations

import base64
from typing import Any

from tarmac.api.identities import BOOTSTRAP, NAMESPACE, PROCESS, TokenHolder, controller_user
from tarmac.api.nodetokens import NodeToken, token_secret
from tarmac.api.schema import JsonObject
from tarmac.apps.bootstrap import ensure_initial_objects
from tarmac.apps.control_plane import CONTROLLING
from tarmac.base.clock import rfc3339
from tarmac.base.tasks import background
from tarmac.client.acting import ActingAs
from tarmac.client.client import Client
from tarmac.client.leader import Elector
from tarmac.client.targets.target import dynamic
from tarmac.client.targets.untyped import (
    CERTIFICATE_REQUESTS,
    CONFIG_MAPS,
    EVENTS,
    LEASES,
    NETWORKS,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from tarmac.controllers.certificates.requests import CLIENT, KUBELET_CLIENT, KUBELET_SERVING
from tarmac.controllers.manager import ControllerManager
from tarmac.server.security.users import User
from tests.controllers.cities import CONTEXTS, Cities, play, pod
from tests.controllers.planet import INSTANCES, WORKLOADS, workload
from tests.controllers.signing import signer
from tests.controllers.test_autoscaling import CPU, DEPLOYMENTS, condition, scaled
from tests.controllers.test_certificates import CLIENT_USAGES, SERVING_USAGES, csr_pem

JOINING = User(
    "system:bootstrap:abcdef",
    groups=("system:bootstrappers", "system:authenticated"),
    extra={"tarmac.dev/token": ("abcdef",), "tarmac.dev/location": ("dfw",)},
)
NODE = User("system:node:dfw-0", groups=("system:nodes", "system:authenticated"))
RUNTIME_CLASSES = dynamic("node.k8s.io/v1", "runtimeclasses", "RuntimeClass", namespaced=False)
PRIORITIES = dynamic("scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", namespaced=False)


def process(cities: Cities) -> Client:
    """Start another process of controllers."""
    return cities.world.client("others", cities.world.link(CONTROLLING))


def request(name: str, pem: str, signer_name: str, usages: list[str]) -> JsonObject:
    spec = {"request": base64.b64encode(pem.encode()).decode(), "signerName": signer_name, "usages": usages}
    return {"metadata": {"name": name}, "spec": spec}


def test_nodes_and_people_get_certificates_and_old_requests_go() -> None:
    async def story(cities: Cities) -> None:
        nodes = cities.world.reliable(NODE).resource(CERTIFICATE_REQUESTS)
        people = cities.user.resource(CERTIFICATE_REQUESTS)
        addresses = (await cities.nodes.get("dfw-0"))["status"]["addresses"]
        named = csr_pem(NODE.name, "system:nodes", *{each["address"] for each in addresses})
        manager = ControllerManager(process(cities), "certificates", sign=signer())
        async with background(manager.run(), "controllers"):
            await nodes.create(request("client", csr_pem(NODE.name), KUBELET_CLIENT, CLIENT_USAGES))
            await nodes.create(request("serving", named, KUBELET_SERVING, SERVING_USAGES))
            made = await people.create(request("person", csr_pem("jane", "team"), CLIENT, CLIENT_USAGES))
            made["status"] = {"conditions": [{"type": "Approved", "status": "True", "reason": "Known"}]}
            await people.update(made, subresource="approval")
            await cities.wait(5)
            issued = [each["metadata"]["name"] for each in (await people.list()).items if each["status"]["certificate"]]
            assert issued == ["client", "person", "serving"]
            await cities.wait(2 * 3600)
            assert not (await people.list()).items

    play("location", story)


def test_a_token_places_the_node_that_joins_with_it() -> None:
    async def story(cities: Cities) -> None:
        joining = cities.world.reliable(JOINING).resource(CERTIFICATE_REQUESTS)
        manager = ControllerManager(process(cities), "certificates", sign=signer())
        token = token_secret(NodeToken("abcdef", "0" * 16, ""), "dfw", 1, "2100-01-01T00:00:00Z")
        await cities.user.resource(SECRETS).create(token)
        async with background(manager.run(), "controllers"):
            own = csr_pem("system:node:dfw-new")
            await joining.create(request("new", own, KUBELET_CLIENT, CLIENT_USAGES))
            await joining.create(request("taken", csr_pem(NODE.name), KUBELET_CLIENT, CLIENT_USAGES))
            await cities.wait(5)
            await joining.create(request("again", own, KUBELET_CLIENT, CLIENT_USAGES))
            await joining.create(request("other", csr_pem("system:node:dfw-new"), KUBELET_CLIENT, CLIENT_USAGES))
            await cities.wait(5)
            made = await cities.nodes.get("dfw-new")
            assert made["metadata"]["labels"]["topology.datum.net/location"] == "dfw"
            assert made["metadata"]["labels"]["topology.datum.net/city-code"] == "DFW"
            names = ("new", "taken", "again", "other")
            conditions = [(await joining.get(each))["status"]["conditions"] for each in names]
            expected = ["AutoApproved", "NodeNameTaken", "AutoApproved", "NodeNameTaken"]
            assert [each[0]["reason"] for each in conditions] == expected

    play("location", story)


def test_a_token_whose_time_is_over_goes() -> None:
    async def story(cities: Cities) -> None:
        secrets = cities.user.resource(SECRETS)
        end = rfc3339(cities.world.clock.now() + 60)
        await secrets.create(token_secret(NodeToken("ghijkl", "0" * 16, ""), "dfw", 1, end))
        async with background(ControllerManager(process(cities), "certificates", sign=signer()).run(), "controllers"):
            await cities.wait(50)
            assert await secrets.get("bootstrap-token-ghijkl", NAMESPACE)
            await cities.wait(20)
            assert await cities.gone(secrets, "bootstrap-token-ghijkl", NAMESPACE)

    play("location", story)


def test_an_object_that_cannot_be_owned_is_told_about() -> None:
    async def story(cities: Cities) -> None:
        owner = await cities.user.resource(CONFIG_MAPS).create({"metadata": {"name": "mine", "namespace": "default"}})
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "mine", "uid": owner["metadata"]["uid"]}
        metadata = {"name": "owned", "ownerReferences": [reference]}
        await cities.user.resource(PRIORITIES).create({"metadata": metadata, "value": 1})
        await cities.wait(5)
        assert "OwnerRefInvalidNamespace" in {each["reason"] for each in (await told(cities)).items}

    play("location", story)


async def told(cities: Cities) -> Any:
    return await cities.user.resource(EVENTS).list("default")


def test_an_authority_that_somebody_changed_is_put_back() -> None:
    async def story(cities: Cities) -> None:
        maps = cities.user.resource(CONFIG_MAPS)
        async with background(
            ControllerManager(process(cities), "serviceaccount", root_ca=lambda: "ours").run(), "controllers"
        ):
            await cities.wait(5)
            await maps.patch("kube-root-ca.crt", {"data": {"ca.crt": "theirs"}}, "default")
            await cities.wait(5)
        assert (await maps.get("kube-root-ca.crt", "default"))["data"] == {"ca.crt": "ours"}

    play("location", story)


def test_a_place_follows_its_network() -> None:
    async def story(cities: Cities) -> None:
        await cities.pods.create(pod("a", place="lhr"))
        await cities.wait(5)
        await cities.user.resource(NETWORKS).patch("default", {"spec": {"mtu": 1400}}, "default")
        await cities.wait(5)
        (context,) = (await cities.user.resource(CONTEXTS).list("default")).items
        assert context["spec"]["mtu"] == 1400

    play("scheduler,node,network", story)


def test_an_instance_misses_its_secret() -> None:
    async def story(cities: Cities) -> None:
        secret = {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "password", "key": "it"}}}
        await cities.wait(5)
        await cities.user.resource(WORKLOADS).create(
            workload(replicas=1, image="example.invalid/app:1", container={"env": [secret]})
        )

        async def missed() -> bool:
            found = (await cities.user.resource(INSTANCES).list("default")).items
            return "Secret password not found." in {condition(each, "Ready").get("message") for each in found}

        await cities.until(missed)

    play("namespace,volume,workload,deployment,instance,scheduler,network,node,location,quota", story)


def test_a_deployment_asks_the_server_what_its_pods_use() -> None:
    async def story(cities: Cities) -> None:
        await cities.wait(5)
        await cities.user.resource(WORKLOADS).create(scaled(CPU))
        await cities.wait(60)
        (deployment,) = (await cities.user.resource(DEPLOYMENTS).list("default")).items
        assert condition(deployment, "AutoscalingReady")["status"] == "False", "there are no metrics here"

    play("workload,deployment,instance,scheduler,network,node,location,quota,autoscaler", story)


def test_a_process_leads_and_makes_what_its_controllers_rely_on() -> None:
    async def story(cities: Cities) -> None:
        client = process(cities)
        await cities.user.resource(PRIORITIES).delete("system-node-critical")
        await cities.user.resource(RUNTIME_CLASSES).patch("vm", {"overhead": None})
        await ensure_initial_objects(Client(ActingAs(client.transport, controller_user(BOOTSTRAP)), client.clock))
        assert await cities.user.resource(PRIORITIES).get("system-node-critical")
        assert (await cities.user.resource(RUNTIME_CLASSES).get("vm"))["overhead"]
        manager = ControllerManager(client, "location", elector=Elector(client, PROCESS, NAMESPACE, "this-one"))
        async with background(manager.run(), "controllers"):
            await cities.wait(30)
            assert (await cities.user.resource(LEASES).get(PROCESS, NAMESPACE))["spec"]["holderIdentity"] == "this-one"

    play("location", story)


def test_secrets_of_accounts_are_filled_and_go() -> None:
    async def story(cities: Cities) -> None:
        accounts, secrets = cities.user.resource(SERVICE_ACCOUNTS), cities.user.resource(SECRETS)

        def sign_token(holder: TokenHolder) -> str:
            return f"{holder.account} {holder.account_uid} in {holder.secret} {holder.secret_uid}"

        manager = ControllerManager(
            process(cities), "serviceaccounttoken", root_ca=lambda: "ours", sign_token=sign_token
        )
        async with background(manager.run(), "controllers"):
            account = await accounts.create({"metadata": {"name": "app", "namespace": "default"}})
            for name, of in (("held", "app"), ("nobodys", "nobody")):
                annotations = {"kubernetes.io/service-account.name": of}
                metadata = {"name": name, "namespace": "default", "annotations": annotations}
                await secrets.create({"metadata": metadata, "type": "kubernetes.io/service-account-token"})
            await cities.wait(5)
            held = await secrets.get("held", "default")
            token = f"app {account['metadata']['uid']} in held {held['metadata']['uid']}"
            assert base64.b64decode(held["data"]["token"]).decode() == token
            assert base64.b64decode(held["data"]["ca.crt"]).decode() == "ours"
            assert await cities.gone(secrets, "nobodys", "default")
            await cities.wait(60)
            now = await secrets.get("held", "default")
            assert now["metadata"]["resourceVersion"] == held["metadata"]["resourceVersion"], "filled once"
            await accounts.delete("app", "default")
            await cities.wait(5)
            assert await cities.gone(secrets, "held", "default")

    play("location", story)


def test_without_a_key_no_secret_is_touched() -> None:
    async def story(cities: Cities) -> None:
        secrets = cities.user.resource(SECRETS)
        annotations = {"kubernetes.io/service-account.name": "nobody"}
        metadata = {"name": "theirs", "namespace": "default", "annotations": annotations}
        await secrets.create({"metadata": metadata, "type": "kubernetes.io/service-account-token"})
        await cities.wait(5)
        assert not (await secrets.get("theirs", "default")).get("data")

    play("location,serviceaccounttoken", story)
