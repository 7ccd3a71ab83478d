#!/bin/sh
# Tests control groups of version 2 on a machine without them here: `prepare` where there is the internet, then `run` on
# the other machine, as root and from the repository's root, with the folder build/cgroups_v2. Needs its python3 (3.12).
# `wireguard` measures the throughput of both drivers there. make soak runs the same tests in an emulated machine.
set -eu
folder=build/cgroups_v2 top=/sys/fs/cgroup
case "${1:-}" in
prepare)
    rm -rf "$folder" && mkdir -p "$folder"
    .venv/bin/python -m pip download -q --no-deps --only-binary=:all: --python-version "${2:-3.12}" -d "$folder" \
        msgspec pytest pluggy iniconfig packaging pygments
    for wheel in "$folder"/*.whl; do .venv/bin/python -m zipfile -e "$wheel" "$folder" && rm "$wheel"; done
    for program in wg wireguard-go; do
        cp "$(.venv/bin/python -c "from tarmac.runtimes.parts import find_program; print(find_program('$program'))")" "$folder"
    done
    ;;
run)
    if [ -e "$top/cgroup.type" ]; then # a container: a group with processes of its own may not divide its controllers
        mkdir -p "$top/rest"
        while read -r process; do echo "$process" > "$top/rest/cgroup.procs" || true; done < "$top/cgroup.procs"
    fi
    PYTHONPATH="src:$folder" exec python3 -m pytest -c /dev/null --noconftest --rootdir=. -p no:cacheprovider -v -rs \
        -W ignore::pytest.PytestUnknownMarkWarning tests/agent/cgroups/test_real_version_2.py \
        tests/agent/cgroups/test_real_pods_version_2.py
    ;;
wireguard) PYTHONPATH="src:$folder" exec python3 tools/wireguard_throughput.py "$folder" ;;
*) echo "usage: $0 prepare [PYTHON] | run | wireguard" >&2 && exit 2 ;;
esac
