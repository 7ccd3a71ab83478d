"""`tarmac version`: prints the versions of Tarmac, of the Kubernetes API and of Python."""

from __future__ import annotations

import argparse
import platform

from tarmac import __version__
from tarmac.api.kubernetes.version import GIT_VERSION


def main(options: argparse.Namespace) -> int:
    """Print the versions."""
    print(f"tarmac {__version__}\nKubernetes API {GIT_VERSION}\nPython {platform.python_version()}")
    return 0
