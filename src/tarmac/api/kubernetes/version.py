"""Which release of Kubernetes the API and the nodes follow."""

from __future__ import annotations

from typing import Final

GIT_VERSION: Final = "v1.35.8+tarmac"
