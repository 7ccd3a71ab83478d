"""The flags for user authentication, named as kube-apiserver names them."""

from __future__ import annotations

import argparse


def add_authentication_flags(command: argparse.ArgumentParser) -> None:
    """Add the flags of a server."""
    people = command.add_argument_group("users of an OpenID Connect issuer")
    people.add_argument(
        "--oidc-issuer-url",
        default="",
        metavar="URL",
        help="the issuer of accepted tokens: https, exactly as tokens name it",
    )
    people.add_argument("--oidc-client-id", default="", metavar="ID", help="the audience that its tokens must have")
    people.add_argument(
        "--oidc-username-claim", default="sub", metavar="CLAIM", help="the claim that is the user name (default: sub)"
    )
    people.add_argument(
        "--oidc-username-prefix", default="", metavar="TEXT",
        help="prefix of user names; - for none (default: the issuer's URL and #, but none for the claim email)",
    )  # fmt: skip
    people.add_argument(
        "--oidc-groups-claim", default="", metavar="CLAIM", help="the claim that lists the groups (default: no groups)"
    )
    people.add_argument("--oidc-groups-prefix", default="", metavar="TEXT", help="prefix of the names of groups")
    people.add_argument(
        "--oidc-ca-file",
        default="",
        metavar="FILE",
        help="CAs to verify the issuer with (default: the system's)",
    )
    people.add_argument(
        "--oidc-required-claim", action="append", type=claim, default=[], metavar="CLAIM=VALUE",
        help="a claim that every token must have; repeatable",
    )  # fmt: skip
    people.add_argument(
        "--oidc-signing-algs", type=names, default=("RS256",), metavar="ALG,ALG",
        help="accepted signing algorithms: RS, ES and PS with 256, 384 or 512 (default: RS256)",
    )  # fmt: skip
    people.add_argument(
        "--authentication-config", default="", metavar="FILE",
        help="an AuthenticationConfiguration instead of these flags: several issuers, expressions; read again when it "
        "changes",
    )  # fmt: skip


def claim(text: str) -> tuple[str, str]:
    """Parse `CLAIM=VALUE`."""
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not CLAIM=VALUE, such as hd=example.com")
    return name, value


def names(text: str) -> tuple[str, ...]:
    """Parse `A,B`."""
    return tuple(each.strip() for each in text.split(",") if each.strip())
