"""The OpenAPI 3.1 document, made from the route table and the types of its handlers."""

from collections.abc import Sequence
from typing import Any

import msgspec

from shoal import __version__
from shoal.model.api.problem import Problem
from shoal.server.http.answers import Answer
from shoal.server.http.route import ApiRoute

_REF = "#/components/schemas/{name}"
_PROBLEMS = {
    "400": "A parameter or the body is not valid; `detail` says which.",
    "401": "No token, or one that is not known.",
    "403": "The role of the token is too small, or the request comes from another site.",
    "404": "There is no such thing.",
    "409": "Not possible now: another process owns the folder.",
    "413": "The body is too large.",
    "415": "The body is not application/json.",
    "422": "Well-formed, but not possible; `detail` says what to change.",
    "429": "Too many requests; `Retry-After` says when to try again.",
    "503": "The store does not answer.",
}


def openapi_document(routes: Sequence[ApiRoute]) -> dict[str, Any]:
    types = [Problem]
    for route in routes:
        types += [one for one in (route.params, route.body, _message(route)) if one is not None]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    by_type = {id(one): schema for one, schema in zip(types, schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, by_type, components)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Shoal", "version": __version__, "description": "The API of `shoal serve`."},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": components,
        },
    }


def _message(route: ApiRoute) -> Any:
    """Return the type of a JSON answer; None: it is something else."""
    answer = route.answer
    return None if isinstance(answer, type) and issubclass(answer, Answer) else answer


def _operation(route: ApiRoute, schemas: dict[int, Any], components: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "description": f"Needs the role `{route.role}`.",
        "tags": [route.topic],
        "parameters": _parameters(route, schemas, components),
        "responses": {str(route.status): _success(route, schemas), **_problems(schemas)},
    }
    if route.body is not None:
        content = {"application/json": {"schema": schemas[id(route.body)]}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _parameters(route: ApiRoute, schemas: dict[int, Any], components: dict[str, Any]) -> list[dict[str, Any]]:
    name = schemas[id(route.params)]["$ref"].rpartition("/")[2]
    found = components[name]
    return [
        {
            "name": field,
            "in": "path" if field in route.path_names else "query",
            "required": field in found.get("required", ()) or field in route.path_names,
            "schema": schema,
        }
        for field, schema in found.get("properties", {}).items()
    ]


def _success(route: ApiRoute, schemas: dict[int, Any]) -> dict[str, Any]:
    if (message := _message(route)) is None:
        return {"description": "Done."}
    return {"description": "Done.", "content": {"application/json": {"schema": schemas[id(message)]}}}


def _problems(schemas: dict[int, Any]) -> dict[str, Any]:
    content = {"application/problem+json": {"schema": schemas[id(Problem)]}}
    return {status: {"description": text, "content": content} for status, text in _PROBLEMS.items()}
