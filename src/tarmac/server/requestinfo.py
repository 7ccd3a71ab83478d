"""What a request is about, in the words authorization, audit and metrics use."""

from __future__ import annotations

from typing import NamedTuple


class RequestInfo(NamedTuple):
    """The attributes of one request. For paths outside the API only `verb` and `path` are set."""

    verb: str  # get, list, watch, create, update, patch, delete, deletecollection; for other paths the method in lower case
    path: str
    is_resource: bool = False
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
