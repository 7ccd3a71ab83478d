"""Compiles the project's own .proto files: `python -m tools.compile_protos`, part of set-up.

Each `X.proto` under `src` becomes `_generated/X_pb2.py` (and its type stub) beside it. Instant when nothing changed.
"""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path

from tools.cache import ROOT, digest, say


def compile_proto(proto: Path) -> None:
    """Compile one file unless its stamp says that this was done already."""
    target = proto.parent / "_generated"
    stamp = target / f"{proto.stem}.{digest([proto.read_bytes(), version('grpcio-tools').encode()])}.stamp"
    if stamp.exists():
        return
    from grpc_tools import protoc  # pyright: ignore[reportMissingTypeStubs] - slow to import, seldom needed

    say(f"compiling {proto.relative_to(ROOT)}")
    target.mkdir(exist_ok=True)
    for old in target.glob(f"{proto.stem}.*.stamp"):
        old.unlink()
    arguments = ["protoc", f"-I{proto.parent}", f"--python_out={target}", f"--pyi_out={target}", str(proto)]
    if protoc.main(arguments):
        sys.exit(f"cannot compile {proto.relative_to(ROOT)}")
    (target / "__init__.py").write_text("")
    stamp.touch()


if __name__ == "__main__":
    for source in sorted((ROOT / "src").rglob("*.proto")):
        compile_proto(source)
