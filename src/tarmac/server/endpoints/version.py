"""`/version`: the version of the Kubernetes API that this server implements."""

from __future__ import annotations

import platform
import sys

from tarmac.api.kubernetes.version import GIT_VERSION
from tarmac.api.schema import JsonObject
from tarmac.server.endpoints.commit import commit


def version() -> JsonObject:
    """Return the document. `goVersion` and `compiler` are mandatory field names; the values describe Python."""
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return {
        "major": "1",
        "minor": "35",
        "emulationMajor": "1",
        "emulationMinor": "35",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "34",
        "gitVersion": GIT_VERSION,
        "gitCommit": commit(),
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": f"python{platform.python_version()}",
        "compiler": sys.implementation.name,
        "platform": f"{sys.platform}/{machine}",
    }
