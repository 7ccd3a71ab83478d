"""Authentication settings of a server's flags: accepted OpenID issuers and their claim mappings."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tarmac.server.security.authentication.openid.configuration import BadConfiguration, read_configuration
from tarmac.server.security.authentication.openid.following import read_limited
from tarmac.server.security.authentication.openid.issuerchecks import authorities, url_mistakes
from tarmac.server.security.authentication.openid.issuers import IssuerSettings
from tarmac.server.security.authentication.openid.mapping import Mapping, groups_claim, required_claim, username_claim
from tarmac.server.security.tokens.signatures import ALGORITHMS

_EMAIL = "email"


@dataclass(frozen=True)
class Authentication:
    """Authentication of users other than by certificates."""

    issuers: tuple[IssuerSettings, ...] = ()
    file: Path | None = None
    """The file the issuers were read from; it is watched for changes."""
    content: bytes = b""


def authentication_of(options: argparse.Namespace) -> Authentication:
    """Return the settings of the flags. Raises ValueError with all errors, OSError for an unreadable file."""
    issuers = _issuers(options)
    name: str = getattr(options, "authentication_config", "")
    if not name:
        return Authentication(issuers)
    if issuers:
        raise ValueError("--authentication-config and --oidc-issuer-url say the same: give one of them")
    file = Path(name).absolute()
    content = read_limited(file)
    try:
        return Authentication(read_configuration(content), file, content)
    except BadConfiguration as error:
        raise ValueError(f"--authentication-config: {file}: {error}") from error


def _issuers(options: argparse.Namespace) -> tuple[IssuerSettings, ...]:
    url: str = getattr(options, "oidc_issuer_url", "")
    client: str = getattr(options, "oidc_client_id", "")
    if not url and not client:
        return ()
    if mistakes := list(_mistakes(options)):
        raise ValueError("; ".join(mistakes))
    file: str = options.oidc_ca_file
    settings = IssuerSettings(
        url, frozenset([client]), _mapping(options), authorities(Path(file).read_text() if file else ""),
        algorithms=frozenset(options.oidc_signing_algs), client_id=client, client_secret=_secret(options),
    )  # fmt: skip
    return (settings,)


def _secret(options: argparse.Namespace) -> str:
    file: str = options.oidc_client_secret_file
    found = Path(file).read_text().strip() if file else ""
    if file and not found:
        raise ValueError(f"--oidc-client-secret-file: {file} is empty; write the client's secret into it")
    return found


def _mistakes(options: argparse.Namespace) -> Iterator[str]:
    if not (options.oidc_issuer_url and options.oidc_client_id):
        yield "--oidc-issuer-url and --oidc-client-id belong together: give both"
    if options.oidc_issuer_url:
        yield from (f"--oidc-issuer-url: {each}" for each in url_mistakes(options.oidc_issuer_url))
    unknown = [each for each in options.oidc_signing_algs if each not in ALGORITHMS]
    if unknown or not options.oidc_signing_algs:
        yield f"--oidc-signing-algs: must be some of {', '.join(ALGORITHMS)}, not {', '.join(unknown) or 'none'}"


def _mapping(options: argparse.Namespace) -> Mapping:
    claim: str = options.oidc_username_claim
    prefix: str = options.oidc_username_prefix
    if not prefix and claim != _EMAIL:
        # the prefix makes the name unique to this issuer, for any value of the claim
        prefix = f"{options.oidc_issuer_url}#"
    return Mapping(
        username_claim(claim, "" if prefix == "-" else prefix),
        groups_claim(options.oidc_groups_claim, options.oidc_groups_prefix)
        if options.oidc_groups_claim
        else lambda _: (),
        claim_rules=tuple(required_claim(*each) for each in options.oidc_required_claim),
    )
