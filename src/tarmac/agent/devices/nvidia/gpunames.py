"""Names of resources for GPU models: `datumcloud.com/nvidia-h200` for the product "NVIDIA H200". Pure.

The form factor and the memory of a product do not belong to its model: an A100 of any form is the same resource.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from tarmac.api.kubernetes.runtimeclasses import PROXIED_PREFIX

NAMES: Final = {"a100": "tesla-a100"}
"""Models that are offered under another name: the Workload RFC's own word for an A100."""
MAX_NAME: Final = 63 - len("nvidia-")
_FORM: Final = re.compile(r"sxm\d*|pcie|nvl\d*|hbm\d\w*|\d+[gm]b|oam")
_UNUSABLE: Final = re.compile(r"[^a-z0-9]+")
_VALID: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")


def resource_of(product: str, names: Mapping[str, str] = NAMES) -> str:
    """Return the resource of a product. `names` has other names for models, without the prefix."""
    model = model_of(product)
    return PROXIED_PREFIX + names.get(model, model)


def model_of(product: str) -> str:
    """Return the model in lower case, such as `h200` or `rtx-6000-ada-generation`."""
    words = [word for word in _UNUSABLE.split(product.lower()) if word and not _FORM.fullmatch(word)]
    if words[:1] == ["nvidia"]:
        words = words[1:]
    return "-".join(words)[:MAX_NAME].strip("-") or "gpu"


def checked_names(stated: Mapping[str, str]) -> dict[str, str]:
    """Return the table with an administrator's additions. Raises ValueError for a name that no resource can have."""
    for model, name in stated.items():
        if not _VALID.fullmatch(name) or len(name) > MAX_NAME:
            raise ValueError(
                f"{model}={name}: a name has at most {MAX_NAME} lower-case letters, digits and -, such as tesla-a100"
            )
    return {**NAMES, **stated}
