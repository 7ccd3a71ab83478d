"""Watches over WebSocket by a stock client, on a real kube-apiserver and on ours: the results are equal."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl

import pytest
import websocket

from tests.server.streams.planet import Planet
from tests.server.streams.test_websockets import PREFIX, encoded, token
from tests.support.peer import Peer, peer

__all__ = ["peer", "token"]

NAMESPACES = "/api/v1/namespaces?watch=1&fieldSelector=metadata.name%3Ddefault"

CASES = {
    "a token and a subprotocol": ["page", "TOKEN"],
    "the token first": ["TOKEN", "page"],
    "only a token": ["TOKEN"],
    "the same token twice": ["page", "TOKEN", "TOKEN"],
    "no base64": ["page", PREFIX + "***"],
    "base64 with padding": ["page", PREFIX + base64.urlsafe_b64encode(b"abcd").decode()],
    "an empty token": ["page", PREFIX],
    "nobody's token": ["page", encoded("nobody")],
    "no token": ["page"],
}


def asked(url: str, ca: str, token: str, protocols: list[str], path: str = NAMESPACES) -> tuple[object, ...]:
    """Return the subprotocol and first event that a stock client gets, or its error."""
    offered = [encoded(token) if each == "TOKEN" else each for each in protocols]
    try:
        trust = {"context": ssl.create_default_context(cadata=ca)}
        socket = websocket.create_connection(
            url.replace("https://", "wss://") + path,
            sslopt=trust,
            subprotocols=offered,
            timeout=10,
        )
    except websocket.WebSocketBadStatusException as error:
        return (error.status_code,)
    try:
        kind, data = socket.recv_data()
        event = json.loads(data)
        return socket.subprotocol, kind, data[-1:], event["type"], event["object"]["metadata"]["name"]
    finally:
        socket.close()


@pytest.mark.peers
async def test_watches_by_websocket_are_as_the_peers(world: Planet, token: str, peer: Peer) -> None:
    for case, protocols in CASES.items():
        ours = await asyncio.to_thread(asked, world.running.url, world.pki.ca_file.read_text(), token, protocols)
        assert ours == await asyncio.to_thread(asked, peer.url, peer.ca, peer.token, protocols), case


@pytest.mark.peers
async def test_refusals_of_logs_are_as_the_peers(world: Planet, token: str, peer: Peer) -> None:
    path = "/api/v1/namespaces/default/pods/nobody/log?follow=true"
    protocols = ["binary.k8s.io", "TOKEN"]
    ours = await asyncio.to_thread(asked, world.running.url, world.pki.ca_file.read_text(), token, protocols, path)
    assert ours == await asyncio.to_thread(asked, peer.url, peer.ca, peer.token, protocols, path) == (404,)
