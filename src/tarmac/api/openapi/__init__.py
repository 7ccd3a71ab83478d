"""OpenAPI documents of all served resources: v3 by group, v2 as JSON and as protobuf."""

from tarmac.api.openapi.documents import OpenAPI, OpenApiDocument

__all__ = ["OpenAPI", "OpenApiDocument"]
