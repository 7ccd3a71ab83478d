"""The media type of a body."""

from __future__ import annotations

from tarmac.api.status import UnsupportedMediaType

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
_ACCEPTED = {JSON, YAML, PROTOBUF}


def body_type(content_type: str, native: bool) -> str:
    """Return the media type without parameters. No header means JSON; only Kubernetes' own kinds have protobuf."""
    if content_type == JSON or not content_type:
        return JSON
    media = content_type.partition(";")[0].strip().lower()
    if media in _ACCEPTED and (native or media != PROTOBUF):
        return media
    offered = [JSON, YAML, PROTOBUF] if native else [JSON, YAML]
    raise UnsupportedMediaType(
        f"the body of the request was in an unknown format - accepted media types include: {', '.join(offered)}"
    )
