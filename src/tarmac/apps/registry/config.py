"""What the registry and the containerds of cities are told about each other: pure functions to the text of files.

The registry is on the machine's loopback. In a city the same address leads there by a relay (`cities.relays`), so one
address is right everywhere. Whoever comes is sent to the API server for a token; the registry itself knows nobody.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from tarmac.api.repositories import REGISTRY, TOKEN_ISSUER, TOKENS_PATH
from tarmac.apps.registry.files import RegistryFiles

ADDRESS: Final = "127.0.0.1"


def config_text(files: RegistryFiles, port: int, server: str, secret: str) -> str:
    """The config.yml, as JSON, which is YAML. `server` is where the API server is, as everybody reaches it."""
    config: dict[str, Any] = {
        "version": 0.1,
        "log": {"level": "warn", "accesslog": {"disabled": True}},
        "storage": {
            "filesystem": {"rootdirectory": str(files.images)},
            # What was begun and never finished; images stay.
            "maintenance": {"uploadpurging": {"enabled": True, "age": "24h", "interval": "1h", "dryrun": False}},
        },
        "http": {
            "addr": f"{ADDRESS}:{port}",
            "secret": secret,
            "relativeurls": True,  # it is reached under several names
            "tls": {"certificate": str(files.certificate), "key": str(files.key), "minimumtls": "tls1.2"},
            "headers": {"X-Content-Type-Options": ["nosniff"]},
        },
        "auth": {
            "token": {
                "realm": f"{server}{TOKENS_PATH}",
                "service": REGISTRY,
                "issuer": TOKEN_ISSUER,
                "rootcertbundle": str(files.trusted),
            }
        },
    }
    return json.dumps(config, indent=2)


def hosts_text(port: int, ca: Path) -> str:
    """The hosts.toml of a containerd. Nobody else is asked: the name means nothing outside."""
    url, trusted = json.dumps(f"https://{ADDRESS}:{port}"), json.dumps(str(ca))
    lines = [
        f"server = {url}",
        f"ca = {trusted}",
        f"[host.{url}]",
        '  capabilities = ["pull", "resolve"]',
        f"  ca = {trusted}",
    ]
    return "\n".join(lines) + "\n"
