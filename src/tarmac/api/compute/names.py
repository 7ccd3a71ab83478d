"""Names that the compute kinds share: group, labels, annotations."""

from __future__ import annotations

GROUP = "compute.datumapis.com"
API_VERSION = f"{GROUP}/v1alpha"

LABEL_WORKLOAD_UID = f"{GROUP}/workload-uid"
LABEL_DEPLOYMENT_UID = f"{GROUP}/workload-deployment-uid"
LABEL_INSTANCE_INDEX = f"{GROUP}/instance-index"
LABEL_WORKLOAD_NAME = f"{GROUP}/workload-name"
LABEL_PLACEMENT_NAME = f"{GROUP}/placement-name"
LABEL_DEPLOYMENT_NAME = f"{GROUP}/workload-deployment-name"
LABEL_CITY_CODE = f"{GROUP}/city-code"

ANNOTATION_SSH_KEYS = f"{GROUP}/ssh-keys"
