"""Helm installs, upgrades, rolls back and uninstalls charts, and kubectl applies a kustomization."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.apps.test_stock_controllers import removed
from tests.support.gobuilt import needs
from tests.support.kubectl import Kubectl
from tests.support.tarmac_process import TarmacProcess
from tools.charts import chart
from tools.gobuild import build

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300), needs("helm")]
_TIMEOUT = "--timeout=120s"
_FIRST, _SECOND = "1.0", "2.0"


@dataclass(frozen=True)
class Helm:
    """Helm with the kubeconfig of a planet and folders of its own."""

    home: Path
    kubeconfig: Path

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run, with any exit code."""
        own = {f"HELM_{each}_HOME": str(self.home / each.lower()) for each in ("CACHE", "CONFIG", "DATA")}
        return subprocess.run(
            [str(build("helm")), *words],
            cwd=self.home, env={**os.environ, **own, "KUBECONFIG": str(self.kubeconfig)},
            capture_output=True, text=True, timeout=180, check=False,
        )  # fmt: skip

    def __call__(self, *words: str) -> str:
        """Run, require success."""
        done = self.run(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def planet(tmp_path_factory: pytest.TempPathFactory) -> Generator[TarmacProcess]:
    """Three simulated cities with the controllers."""
    folder = tmp_path_factory.mktemp("charts")
    flags = ("--runtime=sim", "--sim-nodes=1", "--with-kubernetes-controllers")
    with removed(folder / "data"), TarmacProcess(folder / "data", *flags, command="up") as planet:
        yield planet
        assert planet.stop(timeout=40) == 0


@pytest.fixture
def helm(planet: TarmacProcess, tmp_path: Path) -> Helm:
    return Helm(tmp_path, planet.kubeconfig)


@pytest.fixture
def kubectl(planet: TarmacProcess, tmp_path: Path) -> Kubectl:
    return Kubectl(planet.kubeconfig, tmp_path)


def _image(kubectl: Kubectl) -> str:
    return kubectl("get", "deployment/web-starter", "-o", "jsonpath={.spec.template.spec.containers[0].image}")


def test_the_starter_chart_is_installed_upgraded_rolled_back_and_uninstalled(helm: Helm, kubectl: Kubectl) -> None:
    helm("create", "starter")
    options = ("--wait", _TIMEOUT, "--set=ingress.enabled=true", "--set=autoscaling.enabled=true")
    helm("install", "web", "starter", *options, f"--set=image.tag={_FIRST}")
    assert kubectl("get", "deployment/web-starter", "-o", "jsonpath={.status.readyReplicas}") == "1"
    kubectl("get", "ingress/web-starter", "hpa/web-starter", "service/web-starter", "serviceaccount/web-starter")
    helm("upgrade", "web", "starter", *options, f"--set=image.tag={_SECOND}")
    assert _image(kubectl).endswith(f":{_SECOND}")
    helm("rollback", "web", "1", "--wait", _TIMEOUT)
    assert _image(kubectl).endswith(f":{_FIRST}")
    history = json.loads(helm("history", "web", "-o", "json"))
    assert [each["status"] for each in history] == ["superseded", "superseded", "deployed"]
    helm("uninstall", "web", "--wait", _TIMEOUT)
    assert kubectl("get", "deployments,replicasets,ingresses,hpa", "-o", "name") == ""
    kubectl("wait", "pods", "-l", "app.kubernetes.io/name=starter", "--for=delete", "--timeout=60s")


def test_traefiks_chart_stops_at_its_custom_resources(helm: Helm) -> None:
    done = helm.run("install", "traefik", str(chart("traefik")))
    assert done.returncode != 0
    assert 'no matches for kind "CustomResourceDefinition" in version "apiextensions.k8s.io/v1"' in done.stderr


def test_traefiks_chart_runs_without_its_custom_resources(helm: Helm, kubectl: Kubectl) -> None:
    helm(
        "install", "edge", str(chart("traefik")), "--skip-crds", "--wait", _TIMEOUT,
        "--set=service.spec.type=ClusterIP", "--set=providers.kubernetesCRD.enabled=false",
    )  # fmt: skip
    assert kubectl("get", "deployment/edge-traefik", "-o", "jsonpath={.status.readyReplicas}") == "1"
    kubectl("get", "ingressclass/edge-traefik")
    helm("uninstall", "edge", "--wait", _TIMEOUT)


def test_a_kustomization_is_applied_and_deleted(kubectl: Kubectl, tmp_path: Path) -> None:
    (tmp_path / "kustomization.yaml").write_text(
        "namePrefix: green-\nresources: [web.yaml]\nreplicas: [{name: web, count: 2}]\n"
        "configMapGenerator: [{name: colours, literals: [sky=blue]}]\n"
        "images: [{name: web, newName: registry.local/tarmac/web, newTag: '1'}]\n"
    )
    (tmp_path / "web.yaml").write_text(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  selector: {matchLabels: {app: green}}\n"
        "  template:\n    metadata: {labels: {app: green}}\n    spec:\n      containers:\n"
        "      - {name: c, image: web, envFrom: [{configMapRef: {name: colours}}]}\n"
    )
    kubectl("apply", "-k", str(tmp_path))
    kubectl("wait", "deployment/green-web", "--for=jsonpath={.status.readyReplicas}=2", "--timeout=25s")
    assert "registry.local/tarmac/web:1" in kubectl("get", "deployment/green-web", "-o", "wide")
    kubectl("delete", "-k", str(tmp_path))
