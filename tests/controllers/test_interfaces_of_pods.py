"""A plain Pod gets an address on its namespace's network with its node, and returns it when it is deleted."""

from __future__ import annotations

from tarmac.api.networking.interfaces import AttachedInterface, decode_interfaces
from tarmac.api.networking.names import ANNOTATION_INTERFACES, ANNOTATION_UNDERLAY_MTU
from tarmac.client.targets.untyped import NAMESPACES, NETWORKS
from tests.controllers.cities import BINDINGS, CONTEXTS, Cities, condition, play, pod

NAMES = "scheduler,node,network,namespace"


async def interfaces(cities: Cities, name: str, namespace: str = "default") -> list[AttachedInterface] | None:
    """Return a Pod's interfaces; None without an annotation."""
    found = await cities.pods.get(name, namespace)
    text = (found["metadata"].get("annotations") or {}).get(ANNOTATION_INTERFACES)
    return None if text is None else decode_interfaces(text)


def test_an_interface_is_written_with_the_binding() -> None:
    async def story(cities: Cities) -> None:
        await cities.pods.create(pod("a", place="lhr"))
        await cities.pods.create(pod("b", place="lhr"))
        await cities.wait(5)
        network = await cities.user.resource(NETWORKS).get("default", "default")
        (nic,) = await interfaces(cities, "a") or []
        (other,) = await interfaces(cities, "b") or []
        assert (nic.name, nic.network, nic.mtu) == ("eth0", "default/default", 1460)
        assert nic.vni == network["status"]["vni"] >= 4097
        assert [address.partition("/")[2] for address in nic.addresses] == ["20", "64"]
        assert len(nic.gateways) == 2
        assert nic.routes == ["0.0.0.0/0", "::/0", network["status"]["ipv4Range"], network["status"]["ipv6Range"]]
        assert nic.mac.startswith("02:")
        assert nic.mac != other.mac
        assert not set(nic.addresses) & set(other.addresses)
        assert (await cities.pods.get("a", "default"))["status"]["podIP"] == nic.addresses[0].partition("/")[0]

    play(NAMES, story)


def test_an_address_is_free_again_when_its_pod_is_gone() -> None:
    async def story(cities: Cities) -> None:
        await cities.pods.create(pod("a", place="lhr"))
        await cities.wait(5)
        given = await interfaces(cities, "a")
        await cities.pods.delete("a", "default", grace=0)
        await cities.wait(5)
        await cities.pods.create(pod("b", place="lhr"))
        await cities.wait(5)
        assert await interfaces(cities, "b") == given

    play(NAMES, story)


def test_a_pod_that_was_put_on_a_node_by_others_gets_one_too() -> None:
    async def story(cities: Cities) -> None:
        await cities.pods.create(pod("a", nodeName="lhr-0"))
        await cities.pods.create(
            pod("b", nodeName="lhr-0", hostNetwork=True) | {"metadata": {"name": "b", "namespace": "kube-system"}}
        )
        await cities.wait(10)
        (nic,) = await interfaces(cities, "a") or []
        assert nic.network == "default/default"
        assert await interfaces(cities, "b", "kube-system") is None

    play(NAMES, story)


def test_pods_of_the_host_and_of_declining_namespaces_have_none() -> None:
    async def story(cities: Cities) -> None:
        namespaces = cities.user.resource(NAMESPACES)
        declining = {"networking.datumapis.com/default-network": "none"}
        for name, said in (("plain", declining), ("kube-tools", {})):
            metadata = {"name": name, "annotations": said}
            await namespaces.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        await cities.wait(1)
        for namespace, name in (("kube-tools", "hosted"), ("kube-tools", "system"), ("plain", "alone")):
            made = pod(name, hostNetwork=name == "hosted")
            made["metadata"]["namespace"] = namespace
            await cities.pods.create(made)
        await cities.wait(5)
        assert await interfaces(cities, "hosted", "kube-tools") is None
        assert await interfaces(cities, "alone", "plain") == []
        (system,) = await interfaces(cities, "system", "kube-tools") or []
        assert system.network == "kube-system/internal"

    play(NAMES, story)


def test_a_pod_without_an_address_waits_and_says_so() -> None:
    async def story(cities: Cities) -> None:
        network = await cities.user.resource(NETWORKS).get("default", "default")
        del network["metadata"]["resourceVersion"], network["metadata"]["uid"]
        metadata = {"name": "small", "annotations": {"networking.datumapis.com/default-network": "none"}}
        await cities.user.resource(NAMESPACES).create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        tiny = {"ipam": {"mode": "Auto", "ipv4Range": "10.0.0.0/28"}, "ipFamilies": ["IPv4"]}
        network |= {"metadata": {"name": "default", "namespace": "small"}, "spec": tiny}
        await cities.user.resource(NETWORKS).create(network)
        await cities.wait(2)
        for number in range(14):
            made = pod(f"p{number}", cpu="10m", place="lhr")
            made["metadata"]["namespace"] = "small"
            await cities.pods.create(made)
        await cities.wait(20)
        pods = (await cities.pods.list("small")).items
        (waiting,) = [each for each in pods if "nodeName" not in each["spec"]]
        assert "No address of 10.0.0.0/28 is free" in condition(waiting, "PodScheduled")["message"]
        gone = next(each for each in pods if each is not waiting)["metadata"]["name"]
        await cities.pods.delete(gone, "small", grace=0)
        await cities.wait(400)
        assert "nodeName" in (await cities.pods.get(waiting["metadata"]["name"], "small"))["spec"]

    play(NAMES, story)


def test_a_network_goes_only_when_its_pods_are_gone() -> None:
    async def story(cities: Cities) -> None:
        networks, bindings = cities.user.resource(NETWORKS), cities.user.resource(BINDINGS)
        await cities.pods.create(pod("a", place="lhr"))
        await cities.wait(5)
        uid = (await networks.get("default", "default"))["metadata"]["uid"]
        await networks.delete("default", "default")
        await cities.wait(10)
        assert condition(await networks.get("default", "default"), "Ready")["reason"] == "NetworkInUse"
        await cities.pods.delete("a", "default", grace=0)
        await cities.wait(20)
        assert (await networks.get("default", "default"))["metadata"]["uid"] != uid
        assert (await bindings.list("default")).items == []

    play(NAMES, story)


def test_packets_are_no_larger_than_the_nodes_of_the_place_carry() -> None:
    async def story(cities: Cities) -> None:
        await cities.pods.create(pod("a", place="lhr"))
        await cities.wait(5)
        await cities.nodes.patch("lhr-0", {"metadata": {"annotations": {ANNOTATION_UNDERLAY_MTU: "1400"}}})
        await cities.wait(2)
        (context,) = (await cities.user.resource(CONTEXTS).list("default")).items
        assert context["status"]["mtu"] in (1290, 1250), "with room for encryption"
        await cities.user.resource(NETWORKS).patch("default", {"spec": {"encryption": "Never"}}, "default")
        await cities.wait(2)
        (context,) = (await cities.user.resource(CONTEXTS).list("default")).items
        assert context["status"]["mtu"] in (1350, 1330)
        await cities.pods.create(pod("b", place="lhr"))
        await cities.wait(5)
        (nic,) = await interfaces(cities, "b") or []
        assert nic.mtu == context["status"]["mtu"]

    play(NAMES, story)
