"""Our kinds and the controllers' roles on a real kube-apiserver, and the credential of the process that runs them."""

from __future__ import annotations

import base64
import json

from tarmac.api.catalog import build_catalog
from tarmac.api.crds import crd_documents
from tarmac.api.identities import NAMESPACE, PROCESS
from tarmac.api.schema import JsonObject
from tarmac.apps.crds import rbac_documents, role_documents
from tarmac.client.client import Client
from tarmac.client.targets.target import dynamic
from tarmac.client.targets.untyped import SERVICE_ACCOUNTS
from tarmac.server.security.authorization.controllerpolicy import DUTIES
from tests.support.peer import Peer

CRDS = dynamic("apiextensions.k8s.io/v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False)
PLURALS = {
    "ServiceAccount": "serviceaccounts",
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
}


async def install_kinds(client: Client) -> None:
    """Apply the kinds as `tarmac crds | kubectl apply -f -` does; return when the server has established them."""
    crds = client.resource(CRDS)
    for document in crd_documents(build_catalog()):
        await crds.apply(document, manager="somebody")
    while not all(_is_established(each) for each in (await crds.list()).items):
        await client.clock.sleep(0.1)


def _is_established(crd: JsonObject) -> bool:
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


async def install_roles(client: Client, controllers: str = "*") -> None:
    """Apply the roles of `tarmac crds --rbac=…`, without the kinds. `*` means all controllers."""
    documents = role_documents(list(DUTIES)) if controllers == "*" else rbac_documents(controllers)
    for document in documents:
        kind, namespaced = document["kind"], "namespace" in document["metadata"]
        target = dynamic(document["apiVersion"], PLURALS[kind], kind, namespaced=namespaced)
        await client.resource(target).apply(document, manager="somebody")


async def token(client: Client) -> str:
    """Return a token of the process's account."""
    accounts = client.resource(SERVICE_ACCOUNTS)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    made = await accounts.create(request, namespace=NAMESPACE, name=PROCESS, subresource="token")
    return made["status"]["token"]


def kubeconfig(peer: Peer, token: str) -> str:
    """Return a kubeconfig with a token."""
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": "peer", "cluster": {"server": peer.url, "certificate-authority-data": _data(peer.ca)}}
            ],
            "users": [{"name": PROCESS, "user": {"token": token}}],
            "contexts": [{"name": "peer", "context": {"cluster": "peer", "user": PROCESS}}],
            "current-context": "peer",
        }
    )


def _data(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
