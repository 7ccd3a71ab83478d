"""A node with all features of an agent: both gates, a sizing provider, a class file, exclusive processors.

Unused features must cost nothing: such a node has the same promises as a plain one.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, Final

from tools.cache import ROOT

CLASS: Final = "slow"
IN_A_CLASS: Final[dict[str, Any]] = {"annotations": {"blockio.resources.alpha.kubernetes.io/default": CLASS}}
"""A pod with a class for its container."""
OWN_PROCESSOR: Final[dict[str, Any]] = {"resources": {"limits": {"cpu": "1", "memory": "64Mi"}}}
"""A pod with an exclusive processor for its container."""
_PROVIDER = "eks"


def everything(folder: Path) -> list[str]:
    """Return flags for `tarmac up`; their files are in the folder, which only its owner can write to."""
    programs = folder / "providers"
    programs.mkdir(parents=True, mode=0o700)
    shutil.copy2(ROOT / "plugins" / _PROVIDER, programs / _PROVIDER)
    (programs / _PROVIDER).chmod(0o755)
    provider = {"name": _PROVIDER, "apiVersion": "sizingprovider.kubelet.k8s.io/v1alpha1", "args": ["--max-pods=30"]}
    sizing = _written(folder / "sizing.json", _typed("v1alpha1", "SizingProviderConfig", providers=[provider]))
    throttle = {"Devices": ["/dev/[svn]d*[a-z0-9]"], "ThrottleWriteBps": "500M"}
    classes = _written(folder / "blockio.yaml", {"Classes": {CLASS: [{"Weight": 100}, throttle]}})
    offered = {"types": {"blockio": {"configFile": str(classes), "classes": {CLASS: {"capacity": 100}}}}}
    settings = _typed("v1beta1", "KubeletConfiguration", cpuManagerPolicy="static", classResources=offered)
    flags = (
        f"--config={_written(folder / 'kubelet.json', settings)}",
        "--feature-gates=KubeletSizingProviders=true,ClassResources=true",
        f"--sizing-provider-config={sizing}",
        f"--sizing-provider-bin-dir={programs}",
    )
    return [f"--agent-arg={flag}" for flag in flags]


def _typed(version: str, kind: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": f"kubelet.config.k8s.io/{version}", "kind": kind, **fields}


def _written(file: Path, content: dict[str, Any]) -> Path:
    """JSON is YAML too."""
    file.write_text(json.dumps(content))
    return file
