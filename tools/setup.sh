#!/bin/sh
# Makes a fresh Debian 12 (or a machine much like it) ready: system packages when root, a virtual environment, generated tables.
# Safe to repeat; what is there already is left alone and costs under a second. With --tests, the environment has the
# tools of checks and tests too. Other arguments are programs, and packages of the same names, that are needed besides.
set -eu
cd "$(dirname "$0")/.."
lock=requirements-run.lock
if [ "${1:-}" = --tests ]; then
    shift
    lock=requirements.lock # everything in requirements-run.lock, and the tools
fi
export UV_SYSTEM_CERTS=1 # trust what the machine trusts, a company's own authority included

# Debian's own interpreter before one that comes first in the PATH: it is built with profile feedback, which those that
# people build for themselves mostly are not, and which saves the server a sixth of its CPU time.
suitable='import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))'
python=python3
/usr/bin/python3 -c "$suitable" 2>/dev/null && python=/usr/bin/python3

need_packages() {
    missing=""
    command -v $python >/dev/null || missing="$missing python3"
    $python -c 'import ensurepip, venv' 2>/dev/null || missing="$missing python3-venv"
    [ -e /etc/ssl/certs/ca-certificates.crt ] || missing="$missing ca-certificates"
    command -v dpkg-deb >/dev/null || missing="$missing dpkg"
    if [ "$(id -u)" = 0 ]; then # what real nodes need: rules for networks, disks for instances
        command -v nft >/dev/null || missing="$missing nftables"
        command -v mkfs.ext4 >/dev/null || missing="$missing e2fsprogs"
        command -v nsenter >/dev/null || missing="$missing util-linux"
        command -v tc >/dev/null || missing="$missing iproute2" # bandwidth of addresses; tests look at links with it
        command -v qemu-system-x86_64 >/dev/null || missing="$missing qemu-system-x86" # virtual machines; no service starts
        command -v qemu-img >/dev/null || missing="$missing qemu-utils"
        command -v ssh >/dev/null || missing="$missing openssh-client" # to log in to them
        [ -e /usr/share/OVMF/OVMF_CODE_4M.fd ] || missing="$missing ovmf" # for images that start by UEFI
        command -v xz >/dev/null || missing="$missing xz-utils" # images come packed
        command -v zstd >/dev/null || missing="$missing zstd"
        for program in "$@"; do
            command -v "$program" >/dev/null || missing="$missing $program"
        done
    fi
    [ -z "$missing" ] && return 0
    if [ "$(id -u)" != 0 ]; then
        echo "error: packages are missing:$missing; install them (as root: apt-get install$missing) and run this again" >&2
        exit 1
    fi
    echo "installing system packages:$missing" >&2
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
}

environment() {
    hash=$(cat requirements.lock requirements-run.lock third_party/uv.lock pyproject.toml | sha256sum | cut -c1-16)
    stamp=".venv/.made-of-$hash-$lock"
    [ -e "$stamp" ] && return 0
    [ $lock = requirements-run.lock ] && [ -e ".venv/.made-of-$hash-requirements.lock" ] && return 0
    $python -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
        echo "error: Python 3.11 or newer is needed; this is $($python --version)" >&2
        exit 1
    }
    echo "making the virtual environment" >&2
    [ -x .venv/bin/python ] || $python -m venv .venv
    .venv/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r third_party/uv.lock
    VIRTUAL_ENV=.venv .venv/bin/uv pip install -q --require-hashes -r $lock
    VIRTUAL_ENV=.venv .venv/bin/uv pip install -q --no-deps --no-build-isolation -e .
    rm -f .venv/.made-of-*
    touch "$stamp"
}

tables() {
    .venv/bin/python -m tools.kubernetes_tables
    .venv/bin/python -m tools.compile_protos
    .venv/bin/python -m tools.dashboard
}

kubectl_hint() {
    command -v kubectl >/dev/null && return 0
    echo "there is no kubectl on the PATH; this builds one: export PATH=\$(dirname \$(.venv/bin/python -m tools.kubectl)):\$PATH" >&2
}

need_packages "$@"
environment
tables
kubectl_hint
