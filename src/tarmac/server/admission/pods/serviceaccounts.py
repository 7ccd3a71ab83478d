"""ServiceAccount: sets a Pod's account, and mounts its token unless the Pod or the account opts out."""

from __future__ import annotations

from tarmac.api.schema import JsonObject
from tarmac.base.randomness import Randomness
from tarmac.server.admission.chain import Attributes
from tarmac.server.admission.pods.podplugin import PodCreation, containers_of, mirrors, pod_of
from tarmac.server.admission.refusal import refuse
from tarmac.server.reader import Reader

_BUCKET = "core/serviceaccounts"
_MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
_VOLUME = "kube-api-access-"
# An hour and seven seconds: Kubernetes' marker for tokens of clients that may not re-read them yet.
_TOKEN_SECONDS = 3607


class ServiceAccounts(PodCreation):
    """Sets the account, its token volume and its pull secrets; rejects Pods with a missing account."""

    name = "ServiceAccount"

    def __init__(self, reader: Reader, randomness: Randomness) -> None:
        self._reader = reader
        self._randomness = randomness

    def admit(self, attributes: Attributes) -> None:
        pod = pod_of(attributes)
        if mirrors(pod):
            _check_mirror(attributes, pod)
            return
        spec = pod["spec"]
        name = spec.get("serviceAccountName") or "default"
        spec["serviceAccountName"] = spec["serviceAccount"] = name
        account = self._reader.get(_BUCKET, f"{attributes.namespace}/{name}")
        if account is None:
            where = f"{attributes.namespace}/{name}"
            raise refuse(attributes, f'error looking up service account {where}: serviceaccount "{name}" not found')
        if _wants_token(account, spec):
            self._mount_token(pod)
        if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
            spec["imagePullSecrets"] = [{"name": secret.get("name", "")} for secret in account["imagePullSecrets"]]

    def _mount_token(self, pod: JsonObject) -> None:
        volumes = pod["spec"].get("volumes") or []
        existing = next((v["name"] for v in volumes if v.get("name", "").startswith(_VOLUME)), None)
        name = existing or f"{_VOLUME}{self._randomness.suffix()}"
        mounted = False
        for container in containers_of(pod, "initContainers", "containers"):
            mounts = container.setdefault("volumeMounts", [])
            # A container with its own mount at this path keeps it, as in Kubernetes: two mounts at one path do not
            # start.
            if all(mount.get("mountPath") != _MOUNT_PATH for mount in mounts):
                mounts.append({"name": name, "readOnly": True, "mountPath": _MOUNT_PATH})
                mounted = True
        if mounted and existing is None:
            pod["spec"]["volumes"] = [*volumes, {"name": name, "projected": _token_source()}]


def _wants_token(account: JsonObject, spec: JsonObject) -> bool:
    wanted = spec.get("automountServiceAccountToken")
    if wanted is None:
        wanted = account.get("automountServiceAccountToken")
    return wanted is not False


def _token_source() -> JsonObject:
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    return {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": _TOKEN_SECONDS, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [namespace]}},
        ],
        "defaultMode": 0o644,
    }


def _check_mirror(attributes: Attributes, pod: JsonObject) -> None:
    """Reject references to API objects: a mirror Pod runs without the server, so it cannot use them."""
    if pod["spec"].get("serviceAccountName"):
        raise refuse(attributes, "a mirror pod may not reference service accounts")
    for volume in pod["spec"].get("volumes") or ():
        if "secret" in volume:
            raise refuse(attributes, "a mirror pod may not reference secrets")
        sources = (volume.get("projected") or {}).get("sources") or ()
        if any("serviceAccountToken" in source for source in sources):
            raise refuse(attributes, "a mirror pod may not use ServiceAccountToken volume projections")
