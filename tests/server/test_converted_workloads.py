"""`tarmac convert`: a server accepts the Workload, and the output names fields without an equivalent."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
import yaml

from tarmac.api.schema import JsonObject
from tarmac.apps.convert import convert
from tarmac.apps.main import main
from tarmac.cli.converting.convertedcontainers import qualified
from tests.server.conftest import Client

WORKLOADS = "/apis/compute.datumapis.com/v1alpha/namespaces/default/workloads"

FULL = """
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  labels: {app: web}
  annotations: {deployment.kubernetes.io/revision: "3", owner: me}
spec:
  replicas: 3
  revisionHistoryLimit: 5
  minReadySeconds: 5
  selector: {matchLabels: {app: web}}
  strategy: {rollingUpdate: {maxUnavailable: 0, maxSurge: 1}}
  template:
    metadata: {labels: {app: web}}
    spec:
      nodeSelector: {disk: fast}
      serviceAccountName: robot
      terminationGracePeriodSeconds: 60
      securityContext: {runAsUser: 1000, sysctls: [{name: net.core.somaxconn, value: "1024"}]}
      tolerations: [{key: a, operator: Exists}]
      initContainers:
        - {name: first, image: "busybox:1", command: [sh, -c, "true"]}
        - {name: beside, image: "busybox:1", restartPolicy: Always}
      containers:
        - name: web
          image: nginx:1
          ports: [{containerPort: 80}, {name: metrics, containerPort: 9090, hostPort: 9090}]
          env: [{name: A, value: b}, {name: N, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
          envFrom: [{configMapRef: {name: settings}}]
          readinessProbe: {httpGet: {path: /, port: metrics}}
          resources: {requests: {cpu: 100m, memory: 128Mi, ephemeral-storage: 1Gi}, limits: {cpu: 500m}}
          securityContext: {readOnlyRootFilesystem: true, allowPrivilegeEscalation: false}
          volumeMounts:
            - {name: config, mountPath: /etc/web, readOnly: true}
            - {name: cache, mountPath: /cache}
            - {name: host, mountPath: /host}
      volumes:
        - {name: config, configMap: {name: settings}}
        - {name: cache, emptyDir: {sizeLimit: 64Mi}}
        - {name: host, hostPath: {path: /}}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {ports: [{port: 80}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: once}
"""

SET = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  replicas: 1
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      containers: [{name: db, image: "registry.example:5000/db:1", volumeMounts: [{name: data, mountPath: /data}]}]
  volumeClaimTemplates:
    - metadata: {name: data}
      spec: {storageClassName: fast, accessModes: [ReadWriteOnce], resources: {requests: {storage: 2Gi}}}
"""


def converted(text: str, *cities: str) -> tuple[list[JsonObject], list[str]]:
    return convert(list(yaml.safe_load_all(text)), cities or ("DFW",))


async def accepted(api: Client, obj: JsonObject) -> JsonObject:
    reply = await api("POST", WORKLOADS, {**obj, "metadata": {**obj["metadata"], "namespace": "default"}})
    assert reply.status == 201, reply.raw
    assert reply.warnings == []
    return reply.json


async def test_a_deployment_becomes_a_workload_that_a_server_accepts(api: Client) -> None:
    (made,), _ = converted(FULL, "DFW", "SEA")
    stored = await accepted(api, made)
    assert stored["metadata"]["annotations"] == {"owner": "me"}
    (placement,) = stored["spec"]["placements"]
    assert placement["cityCodes"] == ["DFW", "SEA"]
    assert placement["scaleSettings"] == {"minReplicas": 3, "instanceManagementPolicy": "Parallel"}
    assert stored["spec"]["rollout"]["maxUnavailable"] == 0
    assert stored["spec"]["rollout"]["maxSurge"] == 1
    spec = stored["spec"]["template"]["spec"]
    assert spec["runtime"]["resources"]["requests"] == {"cpu": "100m", "memory": "128Mi"}
    sandbox = spec["runtime"]["sandbox"]
    assert [each["name"] for each in sandbox["initContainers"]] == ["first"]
    assert [each["name"] for each in sandbox["containers"]] == ["web", "beside"]
    assert sandbox["containers"][0]["image"] == "docker.io/library/nginx:1"
    assert [port["name"] for port in sandbox["containers"][0]["ports"]] == ["port-80", "metrics"]
    assert [each["name"] for each in sandbox["containers"][0]["volumeAttachments"]] == ["config", "cache"]
    assert sandbox["terminationGracePeriodSeconds"] == 60


def test_everything_without_an_equivalent_is_named() -> None:
    _, notes = converted(FULL, "DFW", "SEA")
    for named in (
        "Deployment web: spec.replicas: 3 in each of 2 cities, 6 in all",
        "Deployment web: spec.revisionHistoryLimit: left out",
        "Deployment web: spec.template.spec.nodeSelector: left out: name cities in placements",
        "Deployment web: spec.template.spec.serviceAccountName: left out: an instance has an identity of its own",
        "Deployment web: spec.template.spec.securityContext.runAsUser: left out",
        "Deployment web: spec.template.spec.initContainers[beside]: a sidecar",
        "Deployment web: spec.template.spec.containers[web].ports[1].hostPort: left out",
        "Deployment web: spec.template.spec.containers[web].securityContext.readOnlyRootFilesystem: left out",
        "Deployment web: spec.template.spec.containers[web].volumeMounts[0].readOnly: left out",
        "Deployment web: spec.template.spec.containers[web].resources.limits.cpu: left out",
        "Deployment web: spec.template.spec.containers[web].resources.ephemeral-storage: left out",
        "Deployment web: spec.template.spec.volumes[cache].emptyDir: becomes a filesystem in memory",
        "Deployment web: spec.template.spec.volumes[host].hostPath: left out",
        "Service web: left out: apply it as it is",
        "Job once: left out: a Workload keeps its instances running",
    ):
        assert any(note.startswith(named) for note in notes), named
    assert not any("terminationMessagePath" in note or "replicas: 1" in note for note in notes)


async def test_claims_of_a_stateful_set_become_disks_that_stay(api: Client) -> None:
    (made,), notes = converted(SET)
    stored = await accepted(api, made)
    (volume,) = stored["spec"]["template"]["spec"]["volumes"]
    disk = volume["disk"]["template"]["spec"]
    assert disk["resources"]["requests"] == {"storage": "10Gi"}
    assert disk["retain"] is True
    assert stored["spec"]["placements"][0]["scaleSettings"] == {"minReplicas": 1}
    assert any("storageClassName: left out" in note for note in notes)
    assert any("10Gi: a disk has 10 to 100 whole Gi" in note for note in notes)
    assert any("no container requests cpu: 250m" in note for note in notes)


@pytest.mark.parametrize(
    ("image", "full"),
    [
        ("nginx", "docker.io/library/nginx"),
        ("acme/api:1", "docker.io/acme/api:1"),
        ("ghcr.io/acme/api:1", "ghcr.io/acme/api:1"),
        ("localhost/api", "localhost/api"),
        ("registry:5000/api", "registry:5000/api"),
    ],
)
def test_an_image_gets_the_registry_that_docker_means(image: str, full: str) -> None:
    assert qualified(image) == full


def test_the_command_prints_a_manifest_and_its_notes_beside(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "d.yaml").write_text(FULL)
    assert main(["convert", "-f", str(tmp_path / "d.yaml"), "--cities", "dfw,SEA"]) == 0
    printed = capsys.readouterr()
    assert yaml.safe_load(printed.out)["spec"]["placements"][0]["cityCodes"] == ["DFW", "SEA"]
    assert "note: Service web: left out: apply it as it is" in printed.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind: Job\nmetadata: {name: x}", "no Deployment, StatefulSet"),
        ("kind: Deployment\nspec: 5", "Deployment : not of the kind's form"),
        ("kind: Deployment\nmetadata: {name: x}\nspec: {replicas: many}", "Deployment x: not of the kind's form"),
    ],
)
def test_a_file_that_becomes_no_workload_is_refused(
    text: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    assert main(["convert", "-f", "-", "--cities", "DFW"]) == 2
    assert said in capsys.readouterr().err


def test_defaults_that_a_server_adds_are_no_news() -> None:
    container: dict[str, Any] = {
        "name": "c", "image": "a.example/i:1", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }  # fmt: skip
    pod = {
        "containers": [container], "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "securityContext": {},
        "schedulerName": "default-scheduler", "terminationGracePeriodSeconds": 30,
    }  # fmt: skip
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": {"spec": pod}}
    _, notes = convert([{"kind": "Deployment", "metadata": {"name": "x"}, "spec": spec}], ["DFW"])
    assert notes == []
