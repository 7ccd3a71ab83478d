"""Names that the kinds for external services share."""

from __future__ import annotations

GROUP = "submariner.io"
API_VERSION = f"{GROUP}/v1alpha1"
