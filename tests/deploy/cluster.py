"""A Kubernetes cluster of stock programs, with Tarmac's agent and a real containerd as its node.

kube-apiserver, etcd, kube-scheduler, and the controllers of Deployments, Jobs and garbage. The server listens at the
address of the test's bridge, within reach of Pods.
"""

from __future__ import annotations

import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tarmac.apps.stockcontrollers.supervisor import find_stock_controllers
from tests.support.agent_process import AgentProcess, until
from tests.support.containerd import ContainerdNode
from tests.support.kubectl import Kubectl
from tests.support.peer import Peer, running_peer, running_scheduler

NODE = "chart-node"
_CONTROLLERS = (
    "deployment-controller", "replicaset-controller", "job-controller", "garbage-collector-controller",
    "namespace-controller", "node-lifecycle-controller", "serviceaccount-controller",
    "root-ca-certificate-publisher-controller",
)  # fmt: skip
_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


@dataclass(frozen=True)
class Cluster:
    """A running cluster."""

    peer: Peer
    kubectl: Kubectl
    containerd: ContainerdNode

    @property
    def names(self) -> set[str]:
        """The names of all objects, without records of events."""
        kinds = self.kubectl("api-resources", "--verbs=list", "-o", "name").split()
        listed = [each for each in kinds if each.split(".")[0] not in ("events", "componentstatuses")]
        shown = self.kubectl("get", ",".join(listed), "-A", "--no-headers", "-o", "custom-columns=" + _COLUMNS)
        return {" ".join(line.split()) for line in shown.splitlines()}

    def ctr(self, *words: str) -> None:
        """Run ctr in the namespace of Kubernetes' images."""
        settings = self.containerd.settings
        command = [str(settings.parts.ctr), "--address", str(settings.socket), "--namespace", "k8s.io", *words]
        subprocess.run(command, check=True, capture_output=True, timeout=120)


_COLUMNS = "K:.kind,NS:.metadata.namespace,N:.metadata.name"


@contextmanager
def running_cluster(containerd: ContainerdNode, folder: Path) -> Generator[Cluster]:
    """Start everything, wait until the node is ready, end it again."""
    address = containerd.gateway
    with running_peer(address=address, accounts=True) as peer, controller_manager(peer), running_scheduler(peer):
        kubectl = Kubectl(peer.kubeconfig, folder)
        kubeconfig = folder / "node.kubeconfig"
        kubeconfig.write_text(peer.node_kubeconfig(NODE))
        for namespace in _NAMESPACES:
            kubectl("wait", "--for=create", f"namespace/{namespace}", "--timeout=30s")
            for each in ("serviceaccount/default", "configmap/kube-root-ca.crt"):
                kubectl("wait", "-n", namespace, "--for=create", each, "--timeout=30s")
        agent = AgentProcess(folder / NODE, NODE, containerd, kubeconfig, f"--node-ip={address}")
        try:
            with agent:
                kubectl("wait", f"node/{NODE}", "--for=condition=Ready", "--timeout=30s")
                try:
                    yield Cluster(peer, kubectl, containerd)
                finally:  # the next test finds no container of this one
                    kubectl.run("delete", "deployments,jobs", "--all", "-A")
                    kubectl.run("delete", "pods", "--all", "-A", "--force", "--grace-period=0")
                    until(lambda: not agent.pods)
        finally:
            print(agent.log.read_text()[-4000:])


@contextmanager
def controller_manager(peer: Peer) -> Generator[None]:
    """Run the necessary controllers of kube-controller-manager."""
    command = [
        str(find_stock_controllers()), f"--kubeconfig={peer.kubeconfig}", f"--root-ca-file={peer.directory / 'ca.crt'}",
        f"--controllers={','.join(_CONTROLLERS)}", "--leader-elect=false", "--secure-port=0",
    ]  # fmt: skip
    with (peer.directory / "controller-manager.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
