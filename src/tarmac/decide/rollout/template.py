"""The name of a template's content: equal templates have equal hashes, whoever wrote them and in whatever order."""

from __future__ import annotations

import hashlib

import msgspec

from tarmac.api.compute.instance import InstanceTemplate

_LENGTH = 10


def template_hash(template: InstanceTemplate) -> str:
    """Ten hexadecimal digits over the whole template, labels and annotations included.

    It is taken over the typed form, so order of keys, shorthands, and defaults that a server stored do not matter.
    """
    metadata = template.metadata
    content = {
        "labels": (metadata.labels if metadata else {}) or template.labels,
        "annotations": (metadata.annotations if metadata else {}) or template.annotations,
        "spec": template.spec,
    }
    canonical = msgspec.json.encode(content, enc_hook=str, order="sorted")
    return hashlib.sha256(canonical).hexdigest()[:_LENGTH]
