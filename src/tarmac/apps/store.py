"""`tarmac store repair`: reports damage of a SQLite store, and repairs it if the loss is accepted.

Exit code 0 if the store is intact or repaired; 1 if it is damaged and loss was not accepted, or it cannot be repaired.
`tarmac store migrate` is in `storemigration`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tarmac.apps.layout import layout_of
from tarmac.base.log import configure
from tarmac.base.randomness import Randomness
from tarmac.base.stderr import print_error
from tarmac.store.interface import StoreError
from tarmac.store.open import sqlite_path


def main(options: argparse.Namespace) -> int:
    """Examine the store, report, and repair on request."""
    configure(level="error", as_json=False)
    url = layout_of(options).store_url
    if not url.startswith("sqlite://"):
        print_error("only SQLite stores are repaired here; etcd looks after its own")
        return 1
    try:
        return _repair(sqlite_path(url), accept_loss=options.accept_loss)
    except (OSError, ValueError, StoreError) as error:
        print_error(error)
        return 1


def _repair(path: Path, *, accept_loss: bool) -> int:
    from tarmac.store.sqlite.repairing import examine, repair

    new_id = Randomness().uuid
    findings = examine(path, new_id)
    if findings is None:
        print(f"{path} is whole")
        return 0
    print(findings.sentence)
    for line in findings.lost or ["nothing but history"]:
        print(f"{'dropped' if accept_loss else 'would be dropped'}: {line}")
    print(f"{'kept' if accept_loss else 'would be kept'}: {len(findings.kept)} objects")
    if not accept_loss:
        return 1
    aside = repair(path, findings, new_id)
    print(f"{path} is repaired and starts with a history of its own; the damaged files were copied to {aside}")
    return 0
