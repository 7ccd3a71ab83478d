"""Unfinished bodies without a credential against a real server, and the requests of other clients meanwhile."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.tarmac_process import TarmacProcess

URL = "/api/v1/namespaces/default/configmaps"
HALF = f"POST {URL} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 3000000\r\n\r\n".encode()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[TarmacProcess]:
    with TarmacProcess(tmp_path / "data", "--store", "memory://") as process:
        yield process


def anonymous(server: TarmacProcess) -> ssl.SSLSocket:
    host, port = server.authority.split(":")
    context = ssl.create_default_context(cafile=str(server.data_dir / "pki" / "ca.crt"))
    return context.wrap_socket(socket.create_connection((host, int(port)), timeout=10), server_hostname=host)


def post(server: TarmacProcess, name: str, **headers: str) -> int:
    host, port = server.authority.split(":")
    context = ssl.create_default_context(cafile=str(server.data_dir / "pki" / "ca.crt"))
    context = context if headers else server.client_context()
    asking = http.client.HTTPSConnection(host, int(port), context=context, timeout=20)
    body = json.dumps({"metadata": {"name": name}, "data": {"a": "x" * 900_000}})
    asking.request("POST", URL, body, {"Content-Type": "application/json", **headers})
    status = asking.getresponse().status
    asking.close()
    return status


def token(server: TarmacProcess) -> str:
    """The token of an account with the right to write."""
    host, port = server.authority.split(":")
    asking = http.client.HTTPSConnection(host, int(port), context=server.client_context(), timeout=20)
    binding = {
        "metadata": {"name": "writer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "default"}],
    }
    headers = {"Content-Type": "application/json"}
    path = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings"
    asking.request("POST", path, json.dumps(binding), headers)
    asking.getresponse().read()
    asking.request("POST", "/api/v1/namespaces/default/serviceaccounts", '{"metadata":{"name":"default"}}', headers)
    asking.getresponse().read()
    asking.request("POST", "/api/v1/namespaces/default/serviceaccounts/default/token", '{"spec":{}}', headers)
    answer = json.loads(asking.getresponse().read())
    asking.close()
    return answer["status"]["token"]


@pytest.mark.timeout(60)
def test_strangers_share_what_they_hold_with_each_other_only(server: TarmacProcess) -> None:
    bearer = token(server)
    with ExitStack() as stack:
        for _ in range(8):
            each = stack.enter_context(anonymous(server))
            each.sendall(HALF + bytes(2_900_000))
        refused = stack.enter_context(anonymous(server))
        refused.sendall(HALF + bytes(2_900_000))
        assert refused.recv(100).startswith(b"HTTP/1.1 429 ")
        assert post(server, "by-certificate") == 201
        assert post(server, "by-token", Authorization=f"Bearer {bearer}") == 201
