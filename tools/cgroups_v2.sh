#!/bin/sh
# Tests control groups of version 2 on a machine without them here: `prepare` where there is the internet, then `run` on
# the other machine, as root and from the repository's root, with the folder build/cgroups_v2. Needs its python3 (3.12).
set -eu
folder=build/cgroups_v2 top=/sys/fs/cgroup
case "${1:-}" in
prepare)
    rm -rf "$folder" && mkdir -p "$folder"
    .venv/bin/python -m pip download -q --no-deps --only-binary=:all: --python-version "${2:-3.12}" -d "$folder" \
        msgspec pytest pluggy iniconfig packaging pygments
    for wheel in "$folder"/*.whl; do .venv/bin/python -m zipfile -e "$wheel" "$folder" && rm "$wheel"; done
    ;;
run)
    if [ -e "$top/cgroup.type" ]; then # a container: a group with processes of its own may not divide its controllers
        mkdir -p "$top/rest"
        while read -r process; do echo "$process" > "$top/rest/cgroup.procs" || true; done < "$top/cgroup.procs"
    fi
    PYTHONPATH="src:$folder" exec python3 -m pytest -c /dev/null --noconftest --rootdir=. -p no:cacheprovider -v -rs \
        -W ignore::pytest.PytestUnknownMarkWarning tests/agent/cgroups/test_real_version_2.py
    ;;
*) echo "usage: $0 prepare [PYTHON] | run" >&2 && exit 2 ;;
esac
