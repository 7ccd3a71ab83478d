"""Machine images: a size, a file identified by its checksum, and a life cycle that only moves forward.

A node fetches the named file and makes disks from it, so a source is either a plain file name in a directory of the
node or a URL, and comes with the checksum of the file.
"""

from __future__ import annotations

import re

from tarmac.api.compute.lookup import Lookup
from tarmac.api.compute.validation.amounts import amount
from tarmac.api.compute.validation.disks import GIB, MAX_DISK, SMALLEST_IMAGE
from tarmac.api.compute.validation.lifecycle import CatalogueWords, check_lifecycle
from tarmac.api.compute.validation.metadata import check_user
from tarmac.api.repositories import parse_repository
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors

_WORDS = CatalogueWords("machine image", "image", "replacementMachineImage")
_MAX_URL = 2048
_MAX_NAMESPACE = 63

_checksum = re.compile(r"sha256:[0-9a-f]{64}").fullmatch
_file = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,254}").fullmatch
# Every user may read the object, so it must not hold a user name and password: there is no `@` before the path.
_url = re.compile(r"https?://[A-Za-z0-9.\[\]:_-]+(?:/[!-~]*)?").fullmatch
_command_line = re.compile(r"[ -~]*").fullmatch


def check_machine_image(obj: JsonObject, old: JsonObject | None, lookup: Lookup, errors: FieldErrors) -> None:
    """Check the rules beyond the declaration's bounds; `old` is None on create."""
    spec = obj["spec"]
    if spec.get("size") is not None:
        _size(spec["size"], errors)
    source = spec.get("source")
    if source is not None:
        _place(source, "spec.source", errors)
        _list_of_sums(source, errors)
        if not spec.get("checksum") and not source.get("checksums"):
            errors.required(
                "spec.checksum", "must be set with source, unless source.checksums is: sha256:<64 hex digits>"
            )
    _sum(spec, "spec", errors)
    _boot(spec.get("boot"), errors)
    if spec.get("defaultUser"):
        check_user(spec["defaultUser"], "spec.defaultUser", errors)
    check_lifecycle(obj, old, _WORDS, lookup.machine_images(), errors)


def check_local_machine_image(spec: JsonObject, errors: FieldErrors) -> None:
    """Check the rules beyond the declaration's bounds for an image of a tenant."""
    if spec.get("size") is not None:
        _size(spec["size"], errors)
    source = spec.get("source")
    if source is not None:
        _place_of_tenant(source, errors)
    _sum(spec, "spec", errors)
    if spec.get("defaultUser"):
        check_user(spec["defaultUser"], "spec.defaultUser", errors)


def _size(written: str, errors: FieldErrors) -> None:
    size = amount("storage", written, "spec.size", errors)
    if size is not None and (not SMALLEST_IMAGE <= size <= MAX_DISK or size.value() % GIB):
        errors.invalid("spec.size", written, f"must be whole Gi between {SMALLEST_IMAGE} and {MAX_DISK}")


def _place(source: JsonObject, path: str, errors: FieldErrors) -> None:
    file, url = source.get("file"), source.get("url")
    if not file and not url:
        errors.required(path, "must specify one of: `file` or `url`")
    elif file and url:
        errors.forbidden(f"{path}.url", "may not be specified beside `file`")
    if file and not _file(file):
        errors.invalid(f"{path}.file", file, "must be the name of a file, without '/': letters, digits, '.', '-', '_'")
    if url:
        _url_of(url, f"{path}.url", errors)


def _place_of_tenant(source: JsonObject, errors: FieldErrors) -> None:
    url, repository = source.get("url"), source.get("repository")
    if not url and not repository:
        errors.required("spec.source", "must specify one of: `url` or `repository`")
    elif url and repository:
        errors.forbidden("spec.source.repository", "may not be specified beside `url`")
    if url:
        _url_of(url, "spec.source.url", errors)
    # The longest namespace is the worst case: the repository's whole name is bounded.
    if repository and parse_repository(f"{'n' * _MAX_NAMESPACE}/{repository}") is None:
        rule = "must be the name of a repository, without its namespace: lower case letters, digits, '.', '_', '-', '/'"
        errors.invalid("spec.source.repository", repository, rule)


def _url_of(url: str, path: str, errors: FieldErrors) -> None:
    if not _url(url) or len(url) > _MAX_URL:
        errors.invalid(path, url, "must begin with http:// or https:// and name a host, without user or spaces")


def _list_of_sums(source: JsonObject, errors: FieldErrors) -> None:
    listed = source.get("checksums")
    if not listed:
        return
    if not source.get("url"):
        errors.forbidden("spec.source.checksums", "may only be specified beside `url`; state spec.checksum")
    _url_of(listed, "spec.source.checksums", errors)


def _sum(owner: JsonObject, path: str, errors: FieldErrors) -> None:
    written = owner.get("checksum")
    if written and not _checksum(written):
        errors.invalid(f"{path}.checksum", written, "must be sha256: and 64 lower case hex digits, as of sha256sum")


def _boot(boot: JsonObject | None, errors: FieldErrors) -> None:
    if boot is None:
        return
    for name in ("kernel", "initrd"):
        part, path = boot.get(name), f"spec.boot.{name}"
        if part is None:
            continue  # the check of bounds reports a missing kernel
        _place(part, path, errors)
        if not part.get("checksum"):
            errors.required(f"{path}.checksum", "must be set: sha256:<64 hex digits>")
        _sum(part, path, errors)
    if not _command_line(boot.get("commandLine", "")):
        errors.invalid("spec.boot.commandLine", boot["commandLine"], "must be one line of printable ASCII characters")
