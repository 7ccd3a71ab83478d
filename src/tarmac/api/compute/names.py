"""Names that the compute kinds share: group, labels, annotations."""

from __future__ import annotations

GROUP = "compute.datumapis.com"
API_VERSION = f"{GROUP}/v1alpha"

LABEL_CITY_CODE = f"{GROUP}/city-code"

ANNOTATION_SSH_KEYS = f"{GROUP}/ssh-keys"
