"""A planet with an outside segment: three cities, so that a majority of voters survives one, all nodes gateways."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from tarmac.agent.cgroups.mounted import mounted
from tarmac.api.compute.names import LABEL_WORKLOAD_NAME
from tarmac.api.networking.ports import LEASE_PORT
from tarmac.apps.cities.layout import CityLayout, city_of, pods_cgroup
from tarmac.apps.cities.removing import underlay_of
from tarmac.apps.processes import find_processes
from tarmac.datapath.hosts import HostUnderlay, outside_namespace
from tarmac.datapath.linux import namespaces
from tests.egress.watching import Watch
from tests.node.planet import Json, Planet, eventually, pod

CITIES = ("DFW", "SEA", "LHR")
EXAMPLES = Path(__file__).parents[2] / "examples"
SERVICE = "my-externalservice"
ORDERS, BILLING = "192.168.122.200", "192.168.122.201"
TARGET, TARGET6 = "192.168.122.139", "fd00:122::139"


class Outside:
    """The planet, seen from inside its instances and from the segment outside."""

    def __init__(self, planet: Planet) -> None:
        self.planet = planet
        self.underlay: HostUnderlay = underlay_of(planet.data_dir)
        self.namespace = outside_namespace(self.underlay)
        self.watch = Watch(self.namespace, self.cities)

    @cached_property
    def cities(self) -> dict[str, CityLayout]:
        """The cities by the name of their node."""
        return {city.node: city for city in (city_of(each, self.underlay, self.planet.data_dir) for each in CITIES)}

    def use(self, example: str, *services: str) -> None:
        """Apply an example of external services, and wait until packets pass."""
        self.planet.kubectl("apply", "-f", str(EXAMPLES / example))
        for each in services:
            self.planet.wait(f"externalservice/{each}", "condition=Ready", 120)

    def plain(self, name: str, workload: str, node: str, namespace: str = "default") -> None:
        """Create a pod of a workload's Service, whose network other tests may enter: instances keep theirs."""
        made = pod(name, {"name": "web", "image": "registry.local/tarmac/web:1"}, runtimeClassName="runc")
        made["metadata"] |= {"namespace": namespace, "labels": {LABEL_WORKLOAD_NAME: workload}}
        made["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node}
        self.planet.apply(made)

    def wait_for_pod(self, name: str, namespace: str = "default") -> None:
        """Wait until it is ready."""
        words = ("wait", "-n", namespace, "--for=condition=Ready", f"pod/{name}", "--timeout=60s")
        done = self.planet.kubectl.run(*words, timeout=90)
        assert done.code == 0, str(done)

    def pods(self, workload: str, namespace: str = "default") -> list[str]:
        selector = f"{LABEL_WORKLOAD_NAME}={workload}"
        return [each["metadata"]["name"] for each in self.planet.get("pods", "-n", namespace, "-l", selector)["items"]]

    def netns(self, pod: str, namespace: str = "default") -> Path:
        """Return the network namespace of an instance, for use without its agent."""
        uid = self.planet.get("pod", "-n", namespace, pod)["metadata"]["uid"]
        for pid in mounted().inhabitants(pods_cgroup(self.underlay)):
            if uid in Path(f"/proc/{pid}/cgroup").read_text():
                return Path(f"/proc/{pid}/ns/net")
        raise AssertionError(f"{pod} has no process")

    def dialled(self, service: str = SERVICE) -> str:
        (address,) = self.planet.get("externalservice", service)["status"]["addresses"]
        return address

    def seen(self, pod: str, port: int = 8000, *, at: str = "", namespace: str = "default") -> str:
        """Return the source address that the server sees of a pod; empty when the connection fails."""
        script = f"echo | nc -w 3 {at or self.dialled()} {port}"
        done = self.planet.kubectl.run("exec", "-n", namespace, pod, "--", "sh", "-c", script)
        return done.out.split()[2] if done.out.startswith("you are") else ""

    def answers(self, address: str) -> str:
        """Return the instance that answers at an address; empty when none does."""
        url = f"http://[{address}]/cgi-bin/whoami" if ":" in address else f"http://{address}/cgi-bin/whoami"
        command = ["nsenter", f"--net={self.namespace}", "wget", "-qO-", "-T", "3", "-t", "1", url]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        return done.stdout.split()[1] if done.stdout.startswith("host: ") else ""

    def ports(self, ports: list[Json]) -> None:
        """Change the ports of the service."""
        patch = json.dumps({"spec": {"ports": ports}})
        self.planet.kubectl("patch", "externalservice", SERVICE, "--type=merge", "-p", patch)

    def gateway(self, address: str = ORDERS) -> str:
        return self.planet.get("sourceip", address)["status"].get("owner", {}).get("gateway", "")

    def standing(self, address: str = ORDERS) -> set[str]:
        """Return the nodes that could carry an address at once: its Gateway names them, and they have confirmed it."""
        (gateway,) = (
            each
            for each in self.planet.get("gateways.submariner.io", "-A")["items"]
            if each["spec"]["gatewayip"] == address
        )
        named, current = {each["name"] for each in gateway["spec"]["candidates"]}, gateway["metadata"]["generation"]
        said = gateway.get("status", {}).get("nodes", ())
        able = {each["name"] for each in said if each["appliedGeneration"] == current and not each.get("errors")}
        return named & able

    def sharing(self) -> dict[str, str]:
        """Return gateways by their partner, as they report it for the address."""
        nodes = self.planet.get("gateway", ORDERS, "-n", "external-services")["status"]["nodes"]
        return {each["name"]: each["syncedWith"] for each in nodes if each.get("syncedWith")}

    def agents(self, node: str) -> list[int]:
        """Return the agent processes of a node."""
        wanted = f"--root-dir={self.cities[node].agent}"
        return find_processes(lambda words: wanted in words and "agent" in words and "nsenter" not in words[0])

    def votes(self, node: str) -> bool:
        """Return true once the node's agent takes part in leases: it listens on the port."""
        listening = f":{LEASE_PORT:04X} "
        return any(listening in Path(f"/proc/{pid}/net/udp").read_text() for pid in self.agents(node))


def seen_by_datagram(netns: Path, address: str, port: int) -> str:
    """Return the source that the server sees of a datagram from a namespace; empty without a response."""
    with namespaces.inside(netns):
        asking = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
    with asking, suppress(OSError):
        asking.settimeout(0.5)
        asking.connect((address, port))
        asking.send(b"?")
        return asking.recv(100).split()[2].decode()
    return ""


class Stream:
    """A connection of an instance to the server, which repeatedly returns the source that it sees.

    It runs by itself inside the instance: a `kubectl exec` ends with the agent of the node.
    """

    def __init__(self, outside: Outside, pod: str, dialled: str) -> None:
        self._outside, self._pod = outside, pod
        talk = f"(while [ ! -e /tmp/over ]; do echo; sleep 0.1; done) | nc {dialled} 8000"
        self._run(f"rm -f /tmp/over /tmp/said; ({talk}) > /tmp/said 2> /dev/null < /dev/null &")

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self._run("touch /tmp/over")

    def said(self) -> list[str]:
        """Return all responses so far; none while the node's agent is away."""
        return self._run("cat /tmp/said").splitlines()

    def goes_on(self) -> None:
        """Wait for ten more responses."""
        wanted = len(self.said()) + 10
        eventually(lambda: len(self.said()) >= wanted, 30, "an answer on the old connection")

    def is_over(self) -> bool:
        """Return true if no more responses arrive."""
        before = len(self.said())
        time.sleep(1.0)
        return 0 < before == len(self.said())

    def _run(self, script: str) -> str:
        return self._outside.planet.kubectl.run("exec", self._pod, "--", "sh", "-c", script).out


def sharing(run: Path) -> list[int]:
    """Return the processes by which gateways of a planet share connections."""
    return sorted(
        find_processes(lambda words: any(each.startswith(f"{run}/") and "statesync.conf" in each for each in words))
    )
