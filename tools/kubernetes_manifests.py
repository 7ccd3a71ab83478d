"""Writes the chart's generated files and the plain manifests: `python -m tools.kubernetes_manifests`.

Kinds and roles are those of `tarmac crds --rbac`. The plain manifests are the chart as Helm renders it with default
values: `controllers.yaml`, and `remove.yaml`, which is the step before a removal.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from tarmac.api.catalog import build_catalog
from tarmac.api.crds import crd_documents
from tarmac.apps.crdremoval import removal_rules
from tarmac.apps.crds import rbac_documents
from tarmac.controllers.manager import WORKLOADS
from tools import gobuild
from tools.cache import ROOT

FOLDER = ROOT / "deploy" / "kubernetes"
CHART = FOLDER / "chart"
_HEAD = "# Made by `python -m tools.kubernetes_manifests`.\n"
_HOOK = "helm.sh/hook"


def chart_files() -> dict[Path, str]:
    """Return the content of the chart's generated files."""
    return {
        CHART / "kinds.yaml": _HEAD + _dumped(crd_documents(build_catalog())),
        CHART / "roles.yaml": _HEAD + _dumped(rbac_documents(WORKLOADS)),
        CHART / "removal-rules.yaml": _HEAD + yaml.safe_dump(removal_rules(), sort_keys=False),
    }


def plain_manifests() -> dict[Path, str]:
    """Return the content of the plain manifests; kustomization.yaml adds kinds and roles from the chart."""
    documents = rendered()
    known = {_identity(each) for text in chart_files().values() for each in yaml.safe_load_all(text)}
    steps = [each for each in documents if _HOOK in _annotations(each)]
    for each in steps:
        del each["metadata"]["annotations"]
    rest = [each for each in documents if each not in steps and _identity(each) not in known]
    return {FOLDER / "controllers.yaml": _HEAD + _dumped(rest), FOLDER / "remove.yaml": _HEAD + _dumped(steps)}


def rendered(*flags: str) -> list[Any]:
    """Return the objects of the chart as Helm renders them."""
    with tempfile.TemporaryDirectory(prefix="tarmac-helm-") as home:
        own = {f"HELM_{each}_HOME": home for each in ("CACHE", "CONFIG", "DATA")}
        done = subprocess.run(
            [str(gobuild.build("helm")), "template", "tarmac", str(CHART), "--kube-version=1.35.0", *flags],
            env={**os.environ, **own}, stdout=subprocess.PIPE, text=True, check=True,
        )  # fmt: skip
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def _annotations(document: dict[str, Any]) -> dict[str, str]:
    return document["metadata"].get("annotations") or {}


def _identity(document: Any) -> tuple[str, str] | None:
    return (document["kind"], document["metadata"]["name"]) if isinstance(document, dict) else None


def _dumped(documents: Iterable[Any]) -> str:
    return yaml.safe_dump_all(documents, sort_keys=False, explicit_start=True, width=120)


def main() -> int:
    """Write every file."""
    for files in (chart_files, plain_manifests):  # the second reads what the first writes
        for path, text in files().items():
            path.write_text(text)
            print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
