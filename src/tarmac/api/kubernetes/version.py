"""The release of Kubernetes that the API and the nodes follow."""

from __future__ import annotations

from typing import Final

from tarmac import __version__

GIT_VERSION: Final = f"v1.35.8+tarmac-{__version__}"
