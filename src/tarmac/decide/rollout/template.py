"""The hash of a template's content. Equal templates have equal hashes, regardless of author and key order."""

from __future__ import annotations

import hashlib

import msgspec

from tarmac.api.compute.instance import InstanceTemplate
from tarmac.decide.powerstate import with_running

_LENGTH = 10


def template_hash(template: InstanceTemplate) -> str:
    """Return ten hexadecimal digits over the template, with labels and annotations, without a machine's `running`.

    The hash is computed from the typed form, so key order, shorthands and defaults stored by a server do not matter.
    """
    metadata = template.metadata
    content = {
        "labels": (metadata.labels if metadata else {}) or template.labels,
        "annotations": (metadata.annotations if metadata else {}) or template.annotations,
        "spec": with_running(template, running=True).spec,
    }
    canonical = msgspec.json.encode(content, enc_hook=str, order="sorted")
    return hashlib.sha256(canonical).hexdigest()[:_LENGTH]
