"""The user's own kubeconfig: `tarmac up` adds its context, `tarmac down` removes it.

The file is replaced atomically, under the lock that kubectl takes; a copy of it from before stays beside it. Where it
cannot be changed, the reason is printed and everything else works.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tarmac.apps.layout import Layout
from tarmac.base.clock import Clock
from tarmac.base.stderr import print_warning
from tarmac.client.errors import BadKubeconfig
from tarmac.client.kubeconfigmerge import has_context, merged, without

BACKUP_SUFFIX = ".before-tarmac"
_LOCK_TIMEOUT = 2.0
_POLL = 0.05


class NotChanged(Exception):
    """The file stays as it is. The message says why."""


@dataclass(frozen=True, slots=True)
class Merged:
    """The file that has the context now, the context's name, and the copy that was made, if one was."""

    file: Path
    context: str
    backup: Path | None


def home_file(environment: Mapping[str, str]) -> Path:
    """Return the file that kubectl would change: the first of KUBECONFIG, else ~/.kube/config."""
    named = [each for each in environment.get("KUBECONFIG", "").split(os.pathsep) if each]
    return Path(named[0] if named else Path(environment.get("HOME", "/")) / ".kube" / "config").absolute()


async def merge(layout: Layout, file: Path, clock: Clock) -> Merged | None:
    """Add the server's context to a file; None if the file is the server's own, or stays as it is."""
    if _same(file, layout.kubeconfig):
        return None
    try:
        found = await _merge(layout, file, clock)
    except (NotChanged, BadKubeconfig, OSError, UnicodeDecodeError) as error:
        print_warning(f"{file}: not changed: {error}; use: export KUBECONFIG={layout.kubeconfig}")
        return None
    with suppress(OSError):
        layout.merged_kubeconfig.write_text(f"{found.file}\n")
    return found


async def unmerge(layout: Layout, clock: Clock) -> None:
    """Remove the server's context from the file that `merge` changed."""
    try:
        file = Path(layout.merged_kubeconfig.read_text().strip())
    except (OSError, UnicodeDecodeError):
        return
    try:
        async with _locked(file, clock):
            left = without(file.read_text(), str(layout.data_dir))
            if left:
                _replace(file, left)
            elif left is not None:
                file.resolve().unlink()  # an empty file would be an error to kubectl; it was made by `merge`
    except FileNotFoundError:
        return
    except (NotChanged, BadKubeconfig, OSError, UnicodeDecodeError) as error:
        print_warning(f"{file}: the context of {layout.data_dir} stays there: {error}")


async def _merge(layout: Layout, file: Path, clock: Clock) -> Merged:
    _check_owner(file)
    own = layout.kubeconfig.read_text()
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    async with _locked(file, clock):
        text = file.read_text() if file.exists() else ""
        backup = None
        if text and not has_context(text, str(layout.data_dir)):
            backup = file.with_name(file.name + BACKUP_SUFFIX)
            backup.unlink(missing_ok=True)
            backup.touch(mode=0o600)
            backup.write_text(text)
        changed, name = merged(text, own, str(layout.data_dir))
        if changed != text:
            _replace(file, changed)
    return Merged(file, name, backup)


def _check_owner(file: Path) -> None:
    """Refuse files of other users: `sudo` may keep their HOME, and they could not read their own file any more."""
    place = file
    while not place.exists():
        place = place.parent
    if place.stat().st_uid != os.geteuid():
        raise NotChanged(f"{place} belongs to another user")


def _replace(file: Path, text: str) -> None:
    """Replace the content. A link stays a link."""
    target = file.resolve()
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    draft.touch(mode=0o600)
    try:
        draft.write_text(text)
        if target.exists():
            shutil.copymode(target, draft)
        draft.replace(target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


@asynccontextmanager
async def _locked(file: Path, clock: Clock) -> AsyncGenerator[None]:
    """Hold the lock file of kubectl. Raises NotChanged if it is held for too long."""
    lock = file.with_name(f"{file.name}.lock")
    deadline = clock.monotonic() + _LOCK_TIMEOUT
    while True:
        try:
            os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            break
        except FileExistsError:
            if clock.monotonic() > deadline:
                raise NotChanged(f"{lock} is held by another program; remove it if none is running") from None
            await clock.sleep(_POLL)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)


def _same(one: Path, other: Path) -> bool:
    with suppress(OSError):
        return one.samefile(other)
    return one == other
