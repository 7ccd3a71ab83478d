"""Configuration files of the registry and of the cities' containerds. Pure functions.

The registry is on the host's loopback. In a city a relay (`cities.relays`) serves the same address, so one address
works everywhere. Clients are sent to the API server for a token; the registry itself has no users.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from tarmac.api.repositories import REGISTRY, TOKEN_ISSUER, TOKENS_PATH
from tarmac.apps.registry.files import RegistryFiles

ADDRESS: Final = "127.0.0.1"


def config_text(files: RegistryFiles, port: int, server: str, secret: str) -> str:
    """Return the config.yml, as JSON, which is valid YAML. `server` is the API server's URL for all clients."""
    config: dict[str, Any] = {
        "version": 0.1,
        "log": {"level": "warn", "accesslog": {"disabled": True}},
        "storage": {
            "filesystem": {"rootdirectory": str(files.images)},
            # Deletes unfinished uploads; images stay.
            "maintenance": {"uploadpurging": {"enabled": True, "age": "24h", "interval": "1h", "dryrun": False}},
        },
        "http": {
            "addr": f"{ADDRESS}:{port}",
            "secret": secret,
            "relativeurls": True,  # clients use several host names
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
    """Return the hosts.toml of a containerd. No other host is tried: the name exists only here."""
    url, trusted = json.dumps(f"https://{ADDRESS}:{port}"), json.dumps(str(ca))
    lines = [
        f"server = {url}",
        f"ca = {trusted}",
        f"[host.{url}]",
        '  capabilities = ["pull", "resolve"]',
        f"  ca = {trusted}",
    ]
    return "\n".join(lines) + "\n"
