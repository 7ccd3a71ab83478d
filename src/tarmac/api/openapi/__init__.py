"""OpenAPI documents of all served resources: v3 by group, v2 as JSON and as protobuf."""

from tarmac.api.openapi.documents import Document, OpenAPI

__all__ = ["Document", "OpenAPI"]
