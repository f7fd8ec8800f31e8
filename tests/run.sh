#!/usr/bin/env bash
# Runs every test, unprivileged and privileged. Installs what they need from Debian first.
# Arguments are passed on to the test runner, e.g. `tests/run.sh -E 'package(e2e)'`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '%s\n' "$*" >&2; }

if ((EUID != 0)); then
    if ! command -v sudo >/dev/null; then
        say 'the privileged tests need root, and there is no sudo: run this as root'
        exit 1
    fi
    # Keep the caller's toolchain: sudo resets PATH and HOME.
    exec sudo --preserve-env=CARGO_HOME,RUSTUP_HOME,CI,IBEMU env "PATH=$PATH" "HOME=$HOME" "$PWD/tests/run.sh" "$@"
fi

# command -> Debian package
needed=(
    ip:iproute2 tshark:tshark opensm:opensm ibsim:ibsim-utils ibnetdiscover:infiniband-diags cc:gcc
    ping:iputils-ping
)
missing=()
for pair in "${needed[@]}"; do
    command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}")
done
if ((${#missing[@]})); then
    say "installing from Debian: ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi
if ! cargo nextest --version >/dev/null 2>&1; then
    say 'installing cargo-nextest'
    cargo install cargo-nextest --locked --quiet
fi

# One profile for all: the end-to-end tests run the daemons and the command that stand beside them.
# Those of another profile: IBEMU=target/release/ibemu.
cargo build --locked --workspace --bins
cargo test --workspace --doc --locked --quiet
exec cargo nextest run --workspace --locked --no-fail-fast "$@"
