"""Conversion of OpenAPI v3 to v2, as Kubernetes publishes both: same paths and types, older spelling."""

from __future__ import annotations

from typing import Any

from tarmac.api.openapi.naming import COMPONENTS
from tarmac.api.openapi.schemas import OR_NAME

Node = dict[str, Any]

_NO_V2 = ("default", "nullable", "oneOf")


def definitions(schemas: dict[str, Any]) -> Node:
    """Convert `components.schemas` to `definitions`."""
    return {name: schema_v2(schema) for name, schema in schemas.items()}


def schema_v2(schema: Node) -> Node:
    """Convert one schema. A wrapped reference becomes a reference with a description beside it."""
    if OR_NAME in schema:  # without a type any value is valid: kubectl validates a `kind: List` by this document alone
        return {"description": schema.get("description", "")}
    if "oneOf" in schema:  # a number or a string
        schema = {"type": "string", **schema}
    node: Node = {}
    for key, value in schema.items():
        match key:
            case "$ref":
                node["$ref"] = _moved(value)
            case "allOf":
                node["$ref"] = _moved(value[0]["$ref"])
            case "properties":
                node[key] = {name: schema_v2(field) for name, field in value.items()}
            case "items" | "additionalProperties" if isinstance(value, dict):
                node[key] = schema_v2(value)
            case _ if key not in _NO_V2:
                node[key] = value
            case _:
                pass
    return node


def _moved(reference: str) -> str:
    return f"#/definitions/{reference.removeprefix(COMPONENTS)}"


def paths_v2(paths: dict[str, Any]) -> Node:
    """Convert `paths`: parameters lose their schema wrapper, a request body becomes a parameter."""
    return {path: _item(item) for path, item in paths.items()}


def _item(item: Node) -> Node:
    made: Node = {}
    for method, operation in item.items():
        if method == "parameters":
            made[method] = [_parameter(parameter) for parameter in operation]
        else:
            made[method] = _operation(operation)
    return made


def _operation(operation: Node) -> Node:
    body = operation.get("requestBody")
    parameters = [_parameter(parameter) for parameter in operation.get("parameters", [])]
    if body:
        schema = schema_v2(next(iter(body["content"].values()))["schema"])
        required = {"required": True} if body.get("required") else {}
        parameters.insert(0, {"in": "body", "name": "body", "schema": schema, **required})
    produced = [media for answer in operation["responses"].values() for media in answer.get("content", {})]
    made: Node = {
        "consumes": list(body["content"]) if body else ["*/*"],
        "description": operation.get("description", ""),
        "operationId": operation["operationId"],
        "produces": list(dict.fromkeys(produced)) or ["application/json"],
        "responses": {code: _response(answer) for code, answer in operation["responses"].items()},
        "schemes": ["https"],
        "tags": operation["tags"],
    }
    if parameters:
        made["parameters"] = parameters
    return {**made, **{key: value for key, value in operation.items() if key.startswith("x-")}}


def _parameter(parameter: Node) -> Node:
    return {**{key: value for key, value in parameter.items() if key != "schema"}, **parameter.get("schema", {})}


def _response(answer: Node) -> Node:
    contents = list(answer.get("content", {}).values())
    schema = {"schema": schema_v2(contents[0]["schema"])} if contents and "schema" in contents[0] else {}
    return {"description": answer.get("description", ""), **schema}
