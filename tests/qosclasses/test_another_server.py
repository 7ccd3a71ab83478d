"""A kube-apiserver lacks the fields; the same functions read the annotations there."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from tarmac.api.kubernetes.core.nodeclasses import RESOURCES_ANNOTATION, offered_classes
from tarmac.api.kubernetes.core.pods.podclasses import container_classes
from tarmac.client.client import Client
from tarmac.client.http import HttpTransport
from tarmac.client.kubeconfig import load
from tarmac.client.targets.untyped import NODES
from tests.qosclasses.planet import BLOCKIO, Json
from tests.qosclasses.test_offering import LISTS, OFFERED
from tests.support.kubectl import Kubectl
from tests.support.peer import Peer

pytestmark = pytest.mark.peers
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "use-classes.md"


@pytest.fixture
def kubectl(peer: Peer, tmp_path: Path) -> Kubectl:
    return Kubectl(peer.kubeconfig, tmp_path)


def asked(name: str, blockio: str, **resources: Json) -> str:
    spec = {"containers": [{"name": "main", "image": "example.com/x:1", "resources": resources}]}
    spec |= {"automountServiceAccountToken": False}
    metadata = {"name": name, "namespace": "classes", "annotations": {f"{BLOCKIO}/default": blockio}}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


@pytest.fixture
def namespace(kubectl: Kubectl) -> str:
    if kubectl.run("create", "namespace", "classes").code == 0:
        kubectl("create", "serviceaccount", "default", "-n", "classes")
    return "classes"


@pytest.mark.usefixtures("namespace")
def test_fields_are_refused_or_dropped_and_annotations_stay(kubectl: Kubectl) -> None:
    manifest = asked("p", "slow", classes={"blockio": "fast"})
    assert 'unknown field "spec.containers[0].resources.classes"' in kubectl.fails("create", "-f", "-", stdin=manifest)
    kubectl("create", "--validate=ignore", "-f", "-", stdin=manifest)
    stored = json.loads(kubectl("get", "pod", "p", "-n", "classes", "-o", "json"))
    assert "classes" not in stored["spec"]["containers"][0]["resources"]
    assert container_classes(stored, "main") == {"blockio": "slow"}


async def test_a_node_may_say_in_an_annotation_what_it_offers(peer: Peer, tmp_path: Path) -> None:
    config = tmp_path / "node.kubeconfig"
    config.write_text(peer.node_kubeconfig("classy"))
    client = Client(HttpTransport(load(str(config)).http))
    nodes = client.resource(NODES)
    await nodes.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "classy"}})
    patch = {"metadata": {"annotations": {RESOURCES_ANNOTATION: json.dumps(LISTS)}}, "status": LISTS}
    stored = await nodes.patch("classy", patch, type="strategic", subresource="status")
    await client.close()
    assert not LISTS.keys() & stored["status"].keys()
    assert offered_classes(stored) == OFFERED


@pytest.mark.usefixtures("namespace")
def test_the_policy_of_the_page_stands_in_for_a_quota(kubectl: Kubectl) -> None:
    (policy,) = re.findall(r"```\n(apiVersion: admissionregistration.*?)```", PAGE.read_text(), re.DOTALL)
    kubectl("apply", "-f", "-", stdin=policy)
    deadline = time.monotonic() + 60
    while (refused := kubectl.run("create", "--dry-run=server", "-f", "-", stdin=asked("q", "fast"))).code == 0:
        assert time.monotonic() < deadline, "the server does not enforce the policy"
    assert "only the blockio class slow may be used" in refused.err
    kubectl("create", "-f", "-", stdin=asked("q", "slow"))
    kubectl("delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", "classes")
