"""Finds the server and the credentials: kubeconfig files, or a pod's service account.

Several files in KUBECONFIG merge as kubectl merges them: the first file to name a cluster, user or context wins, and so
does the first `current-context`. Relative paths in a file are relative to that file. Certificates and keys are read
here, embedded or by path; only a token file is kept as a path, since tokens rotate.

A Tarmac cluster has the URLs of all its servers in an extension, which kubectl ignores. Long-running clients update
such a file; files without the extension are never written.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tarmac.client.errors import BadKubeconfig
from tarmac.client.http import HttpConfig

SERVERS_EXTENSION = "tarmac.dev/servers"
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class ServerContext:
    """A server and the default namespace."""

    http: HttpConfig
    namespace: str = "default"
    file: Path | None = None  # that names all servers of the cluster, if one does


def load(
    path: str | None = None,
    context: str | None = None,
    environment: Mapping[str, str] | None = None,
    local: Path | None = None,
) -> ServerContext:
    """Return the connection to use.

    Sources, in this order: an explicit file, KUBECONFIG, ~/.kube/config, the pod's service account, and `local`, the
    file of a server on this host.
    """
    environment = os.environ if environment is None else environment
    if path is not None:
        return from_files([Path(path)], context)
    named = [Path(each) for each in environment.get("KUBECONFIG", "").split(os.pathsep) if each]
    files = [each for each in named or [_home_file(environment)] if each.exists()]
    if files:
        return from_files(files, context)
    if "KUBERNETES_SERVICE_HOST" in environment:
        return in_cluster(environment)
    if local is not None and _is_readable(local):
        return from_files([local], context)
    raise BadKubeconfig("no kubeconfig: set KUBECONFIG, or write ~/.kube/config; `tarmac up` starts a local server")


def _is_readable(file: Path) -> bool:
    """Return false also where a folder on the way is closed to this user."""
    return os.access(file, os.R_OK)


def in_cluster(environment: Mapping[str, str], account: Path = SERVICE_ACCOUNT) -> ServerContext:
    """Return the connection of a pod with a service account."""
    host = environment["KUBERNETES_SERVICE_HOST"]
    if ":" in host:
        host = f"[{host}]"
    url = f"https://{host}:{environment.get('KUBERNETES_SERVICE_PORT', '443')}"
    try:
        ca = (account / "ca.crt").read_text()
        namespace = (account / "namespace").read_text().strip()
    except OSError as error:
        raise BadKubeconfig(f"in a pod, but its service account cannot be read: {error}") from error
    return ServerContext(HttpConfig(url, ca=ca, token_file=str(account / "token")), namespace)


def from_files(files: list[Path], context: str | None = None) -> ServerContext:
    """Merge the files and take one context of them."""
    merged = _Merged()
    for file in files:
        merged.add(file)
    name = context or merged.current
    if not name:
        raise BadKubeconfig("no context chosen: current-context is empty")
    chosen = merged.entry("contexts", name)
    cluster = merged.entry("clusters", chosen.get("cluster", ""))
    user = merged.entry("users", chosen["user"]) if chosen.get("user") else {}
    file = merged.file_of(chosen["cluster"]) if servers_of(cluster) is not None else None
    return ServerContext(_http(cluster, user), chosen.get("namespace") or "default", file)


def servers_of(cluster: dict[str, Any]) -> list[str] | None:
    """Return the URLs in a cluster's extension; None without one. Invalid URLs are left out."""
    for each in cluster.get("extensions") or ():
        if isinstance(each, dict) and each.get("name") == SERVERS_EXTENSION:
            content = each.get("extension")
            found = content.get("servers") if isinstance(content, dict) else None
            return [url for url in found or () if isinstance(url, str) and url.startswith("https://")]
    return None


def servers_extension(urls: Sequence[str]) -> list[dict[str, Any]]:
    """Return the extensions of a cluster with these servers."""
    return [{"name": SERVERS_EXTENSION, "extension": {"servers": list(urls)}}]


def with_servers(text: str, urls: Sequence[str]) -> str:
    """Return a kubeconfig with these servers in every cluster that has the extension and the first of them as server.

    Raises BadKubeconfig.
    """
    document = _document(text)
    for cluster in (item["cluster"] for item in document["clusters"]):
        if servers_of(cluster) is not None and cluster.get("server") == urls[0]:
            others = [each for each in cluster["extensions"] if each.get("name") != SERVERS_EXTENSION]
            cluster["extensions"] = [*others, *servers_extension(urls)]
    return _text_of(document)


def with_authorities(text: str, url: str, pem: str) -> str:
    """Return a kubeconfig with these CAs in every cluster that has the extension and this URL as server.

    Raises BadKubeconfig.
    """
    document = _document(text)
    for cluster in (item["cluster"] for item in document["clusters"]):
        if servers_of(cluster) is not None and cluster.get("server") == url:
            cluster.pop("certificate-authority", None)  # a file that belongs to a different program
            cluster["certificate-authority-data"] = base64.b64encode(pem.encode()).decode()
    return _text_of(document)


def _document(text: str) -> dict[str, Any]:
    """Decode a kubeconfig that has clusters. Raises BadKubeconfig: it may be read while it is written."""
    import yaml  # only for changing a kubeconfig: a server never needs the YAML parser

    try:
        document = yaml.safe_load(text)
        _ = [item["cluster"] for item in document["clusters"]]
    except (yaml.YAMLError, KeyError, TypeError) as error:
        raise BadKubeconfig(f"not a kubeconfig: {error}") from error
    return document


def _text_of(document: dict[str, Any]) -> str:
    import yaml  # as above

    return yaml.safe_dump(document, sort_keys=False)


def _home_file(environment: Mapping[str, str]) -> Path:
    return Path(environment.get("HOME", "/")) / ".kube" / "config"


class _Merged:
    """Named entries of all files; the first of each name counts."""

    def __init__(self) -> None:
        self.current = ""
        self._entries: dict[tuple[str, str], dict[str, Any]] = {}
        self._clusters: dict[str, Path] = {}

    def add(self, file: Path) -> None:
        document = _read(file)
        self.current = self.current or document.get("current-context") or ""
        for section, field in (("clusters", "cluster"), ("users", "user"), ("contexts", "context")):
            for item in document.get(section) or []:
                entry = dict(item.get(field) or {})
                for key in ("certificate-authority", "client-certificate", "client-key", "tokenFile"):
                    if entry.get(key):
                        entry[key] = str(file.parent / entry[key])
                self._entries.setdefault((section, item["name"]), entry)
                if section == "clusters":
                    self._clusters.setdefault(item["name"], file)

    def file_of(self, cluster: str) -> Path:
        return self._clusters[cluster]

    def entry(self, section: str, name: str) -> dict[str, Any]:
        try:
            return self._entries[section, name]
        except KeyError:
            raise BadKubeconfig(f'kubeconfig has no {section[:-1]} "{name}"') from None


def _read(file: Path) -> dict[str, Any]:
    import yaml  # as above

    try:
        document = yaml.load(file.read_text(), yaml.CSafeLoader)
    except (OSError, yaml.YAMLError) as error:
        raise BadKubeconfig(f"{file}: {error}") from error
    if not isinstance(document, dict):
        raise BadKubeconfig(f"{file}: not a kubeconfig")
    return document


def _http(cluster: dict[str, Any], user: dict[str, Any]) -> HttpConfig:
    if not cluster.get("server"):
        raise BadKubeconfig("the cluster has no server")
    if user.get("exec") or user.get("auth-provider"):
        raise BadKubeconfig("credentials from a plug-in are not supported; use a certificate or a token")
    return HttpConfig(
        url=cluster["server"],
        ca=_text(cluster, "certificate-authority"),
        certificate=_text(user, "client-certificate"),
        key=_text(user, "client-key"),
        token=user.get("token"),
        token_file=user.get("tokenFile"),
        username=user.get("username"),
        password=user.get("password"),
        server_name=cluster.get("tls-server-name"),
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
        compress=not cluster.get("disable-compression"),
        servers=tuple(servers_of(cluster) or ()),
    )


def _data(entry: dict[str, Any], field: str) -> bytes | None:
    try:
        return base64.b64decode(entry[field + "-data"], validate=True) if entry.get(field + "-data") else None
    except binascii.Error as error:
        raise BadKubeconfig(f"{field}-data is not base64: {error}") from error


def _text(entry: dict[str, Any], field: str) -> str | None:
    data = _data(entry, field)
    if data is None and entry.get(field):
        try:
            data = Path(entry[field]).read_bytes()
        except OSError as error:
            raise BadKubeconfig(f"{field}: {error}") from error
    return None if data is None else data.decode()
