"""The chart and the image on a real cluster: installed, used, upgraded and removed, and the leader killed.

Pods of the chart run in containerd from the image, as a user without rights, with the token of their account.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from tarmac.api.networking.names import LABEL_LOCATION
from tests.apps.test_charts import Helm
from tests.deploy.cluster import NODE, Cluster, running_cluster
from tests.support.agent_process import until
from tests.support.containerd import WEB, ContainerdNode
from tests.support.gobuilt import needs
from tools import image
from tools.kubernetes_manifests import CHART

pytestmark = [pytest.mark.root, pytest.mark.peers, pytest.mark.timeout(600), needs("helm")]

_RELEASE = "tarmac"
_IN = "--namespace=kube-system"
_WAIT = ("--wait", "--timeout=150s")
_NEXT = f"{image.NAME}-next"
_PODS = ("-n", "kube-system", "-l", "app.kubernetes.io/name=tarmac-controllers")
# A leader that was killed is replaced within seconds.
_ELECTION = ("--leader-elect-lease-duration=5s", "--leader-elect-renew-deadline=4s", "--leader-elect-retry-period=1s")
_LOCATION = {
    "apiVersion": "networking.datumapis.com/v1alpha",
    "kind": "Location",
    "metadata": {"name": "dfw"},
    "spec": {
        "locationClassName": "self-managed",
        "topology": {"topology.datum.net/city-code": "DFW"},
        "provider": {"nodes": {}},
    },
}
_SIZE = {"instanceType": "datumcloud/d1-custom", "requests": {"cpu": "100m", "memory": "128Mi"}}
_CONTAINER = {"name": "main", "image": WEB}
_WORKLOAD = {
    "apiVersion": "compute.datumapis.com/v1alpha",
    "kind": "Workload",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {
        "template": {"spec": {"runtime": {"resources": _SIZE, "sandbox": {"containers": [_CONTAINER]}}}},
        "placements": [{"name": "all", "cityCodes": ["DFW"], "scaleSettings": {"minReplicas": 1}}],
    },
}


@pytest.fixture
def cluster(containerd_node: ContainerdNode, tmp_path: Path) -> Iterator[Cluster]:
    with running_cluster(containerd_node, tmp_path) as found:
        found.ctr("images", "import", str(image.build(tmp_path)))
        found.ctr("images", "tag", image.NAME, _NEXT)
        yield found


def test_a_workload_becomes_pods_and_upgrade_and_removal_leave_nothing(cluster: Cluster, tmp_path: Path) -> None:
    kubectl, helm = cluster.kubectl, Helm(tmp_path, cluster.peer.kubeconfig)
    kubectl("label", "node", NODE, f"{LABEL_LOCATION}=dfw")
    before = cluster.names
    values = tmp_path / "values.json"
    values.write_text(json.dumps({"flags": list(_ELECTION), "env": environment(cluster)}))

    helm("install", _RELEASE, str(CHART), _IN, f"--values={values}", *_WAIT)
    pod = use(cluster)
    runs_without_rights(cluster)
    kill_the_leader(cluster)

    upgraded = next_chart(tmp_path)
    helm(
        "upgrade",
        _RELEASE,
        str(upgraded),
        _IN,
        f"--values={values}",
        f"--set=image={_NEXT}",
        "--set=replicas=1",
        *_WAIT,
    )
    images = kubectl("get", "pods", *_PODS, "-o", "jsonpath={.items[*].spec.containers[0].image}")
    assert images.split() == [_NEXT]
    assert "A field of the next version" in kubectl("explain", "workload.spec.next")
    assert kubectl("get", "pod", pod, "-o", "jsonpath={.status.containerStatuses[0].restartCount}") == "0"
    scale(cluster, 2)

    removed = helm.run("uninstall", _RELEASE, _IN, *_WAIT)
    assert removed.returncode == 0, removed.stderr + kubectl.run("logs", "-n", "kube-system", "job/tarmac-removal").out
    kubectl("wait", "pods", "--all", "-A", "--for=delete", "--timeout=60s")  # deleted by the garbage collector
    assert sorted(cluster.names ^ before) == []


def environment(cluster: Cluster) -> list[dict[str, str]]:
    """Return the address of the server: no program of this cluster implements Services."""
    server = urlsplit(cluster.peer.url)
    return [
        {"name": "KUBERNETES_SERVICE_HOST", "value": str(server.hostname)},
        {"name": "KUBERNETES_SERVICE_PORT", "value": str(server.port)},
    ]


def use(cluster: Cluster) -> str:
    """Create a Workload and return the name of its running Pod."""
    for each in (_LOCATION, _WORKLOAD):
        cluster.kubectl("create", "-f", "-", stdin=json.dumps(each))
    scale(cluster, 1)
    cluster.kubectl("wait", "workload/web", "--for=jsonpath={.status.readyReplicas}=1", "--timeout=25s")
    return pods_of_the_workload(cluster)[0]


def scale(cluster: Cluster, number: int) -> None:
    """Set the number of instances and wait until so many Pods are ready: a leader works."""
    placements = [{"name": "all", "cityCodes": ["DFW"], "scaleSettings": {"minReplicas": number}}]
    patch = json.dumps({"spec": {"placements": placements}})
    cluster.kubectl("patch", "workload/web", "--type=merge", "-p", patch)
    until(lambda: len(pods_of_the_workload(cluster)) == number, 60, 0.2)
    selector = "compute.datumapis.com/workload-name=web"
    done = cluster.kubectl.run("wait", "pods", "-l", selector, "--for=condition=Ready", "--timeout=60s", timeout=70)
    assert done.code == 0, f"{done}\n{cluster.kubectl('describe', 'pods', '-l', selector)}"


def pods_of_the_workload(cluster: Cluster) -> list[str]:
    listed = cluster.kubectl("get", "pods", "-l", "compute.datumapis.com/workload-name=web", "-o", "name")
    return [each.removeprefix("pod/") for each in listed.split()]


def runs_without_rights(cluster: Cluster) -> None:
    """Look at the processes themselves."""
    found = processes()
    assert len(found) == 2
    for process in found.values():
        status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
        assert status["Uid"].split() == [image.USER] * 4
        assert (int(status["CapEff"], 16), int(status["CapBnd"], 16)) == (0, 0)
        assert status["NoNewPrivs"].strip() == "1"
        root = next(line for line in (process / "mountinfo").read_text().splitlines() if line.split()[4] == "/")
        assert root.split()[5].split(",")[0] == "ro"


def processes() -> dict[str, Path]:
    """Return the processes of the chart's containers by host name, the name of the Pod."""
    found: dict[str, Path] = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # ended meanwhile
            if b"--health-port=10270" in (process / "cmdline").read_bytes().split(b"\0"):
                variables = dict(
                    each.split(b"=", 1) for each in (process / "environ").read_bytes().split(b"\0") if each
                )
                found[variables[b"HOSTNAME"].decode()] = process
    return found


def kill_the_leader(cluster: Cluster) -> None:
    """Kill the process of the leader; the other one leads then and works."""
    first = leader(cluster)
    os.kill(int(processes()[first].name), signal.SIGKILL)
    until(lambda: leader(cluster) not in ("", first), 60, 0.2)
    scale(cluster, 2)
    scale(cluster, 1)


def leader(cluster: Cluster) -> str:
    holder = cluster.kubectl(
        "get", "lease/tarmac-controllers", "-n", "kube-system", "-o", "jsonpath={.spec.holderIdentity}"
    )
    return holder.partition("_")[0]


def next_chart(folder: Path) -> Path:
    """Return a chart of a next version, with one more field of Workload."""
    chart = folder / "next"
    shutil.copytree(CHART, chart)
    kinds = list(yaml.safe_load_all((chart / "kinds.yaml").read_text()))
    [workload] = [each for each in kinds if each["spec"]["names"]["kind"] == "Workload"]
    schema = workload["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["properties"]["next"] = {
        "type": "string",
        "description": "A field of the next version.",
    }
    (chart / "kinds.yaml").write_text(yaml.safe_dump_all(kinds, sort_keys=False))
    about = yaml.safe_load((chart / "Chart.yaml").read_text())
    (chart / "Chart.yaml").write_text(yaml.safe_dump({**about, "version": "0.2.1"}))
    return chart
