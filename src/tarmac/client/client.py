"""The client of an API server: requests, and typed access to resources."""

from __future__ import annotations

from typing import TypeVar

from tarmac.client.requests import RequestClient
from tarmac.client.resourceclient import ResourceClient
from tarmac.client.targets.target import Target

T = TypeVar("T")


class Client(RequestClient):
    """Access to one API server under one identity: `resource` for one resource, `call` for anything else."""

    def resource(self, target: Target[T]) -> ResourceClient[T]:
        """Return typed access to one resource."""
        return ResourceClient(self, target)
