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
    ping:iputils-ping ibdiagnet:ibutils nm:binutils ibv_devinfo:ibverbs-utils ib_send_bw:perftest
    ucx_perftest:ucx-utils mpirun.openmpi:openmpi-bin mpicc.openmpi:libopenmpi-dev mpiexec.hydra:mpich mpicc.mpich:libmpich-dev
    rping:rdmacm-utils fi_pingpong:libfabric-bin qperf:qperf NPopenmpi:netpipe-openmpi
    iperf3:iperf3 python3:python3 curl:curl debootstrap:debootstrap buildah:buildah
    slurmctld:slurmctld slurmd:slurmd srun:slurm-client munge:munge iptables:iptables
    chromium:chromium chromedriver:chromium-driver npm:npm openssl:openssl
)
missing=()
for pair in "${needed[@]}"; do
    command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}")
done
# Headers that a program of a test is compiled with.
[[ -e /usr/include/infiniband/umad.h ]] || missing+=(libibumad-dev)
[[ -e /usr/include/infiniband/verbs.h ]] || missing+=(libibverbs-dev)
# YAML, for the action and the workflow that a guide shows.
python3 -c 'import yaml' 2>/dev/null || missing+=(python3-yaml)
if ((${#missing[@]})); then
    say "installing from Debian: ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    # Servers that come with a package (Slurm's, MUNGE's) are not started: tests start their own.
    policy=/usr/sbin/policy-rc.d
    if [[ ! -e $policy ]]; then
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod 755 "$policy"
        trap 'rm -f "$policy"' EXIT
    fi
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
    if [[ -n $(trap -p EXIT) ]]; then
        rm -f "$policy"
        trap - EXIT
    fi
fi
# unpack PACKAGE FOLDER: a package's files in a folder. Not installed, servers do not begin to serve, and documents are kept.
unpack() {
    say "unpacking from Debian: $1"
    apt-get update -qq
    local unpacked
    unpacked=$(mktemp -d)
    (cd "$unpacked" && apt-get download -qq "$1" && dpkg-deb -x ./*.deb files)
    mkdir -p "$2"
    cp -r "$unpacked/files/." "$2"
    rm -r "$unpacked"
}
if ! command -v prometheus-node-exporter >/dev/null; then
    unpack prometheus-node-exporter /usr/local/lib/ibemu-tests/prometheus-node-exporter
    install -m 755 /usr/local/lib/ibemu-tests/prometheus-node-exporter/usr/bin/prometheus-node-exporter /usr/local/bin/
fi
if [[ ! -x /usr/local/lib/ibemu-tests/prometheus/usr/bin/promtool ]]; then
    unpack prometheus /usr/local/lib/ibemu-tests/prometheus
fi
# rdma-core's tests of libibverbs are among the documents of its Python module.
if [[ ! -e /usr/local/lib/ibemu-tests/pyverbs/usr/share/doc/rdma-core/tests/run_tests.py ]]; then
    unpack python3-pyverbs /usr/local/lib/ibemu-tests/pyverbs
    gunzip -r /usr/local/lib/ibemu-tests/pyverbs/usr/share/doc/rdma-core/tests
fi
if [[ ! -x /usr/local/lib/ibemu-tests/sshd/usr/sbin/sshd ]]; then
    unpack openssh-server /usr/local/lib/ibemu-tests/sshd
fi
# What a package is installed into.
debian=/usr/local/lib/ibemu-tests/debian
if [[ ! -e $debian ]]; then
    say 'making a Debian system'
    suite=$(source /etc/os-release && [[ $ID == debian ]] && printf '%s' "$VERSION_CODENAME" || printf stable)
    rm -rf "$debian.new"
    debootstrap --variant=minbase "$suite" "$debian.new" >/dev/null
    rm -rf "$debian.new"/var/cache/apt/archives/*.deb "$debian.new"/var/lib/apt/lists/*
    mv "$debian.new" "$debian"
fi
# npm_package NAME@VERSION INTEGRITY FOLDER FILE...: files of a package of that content in a folder.
npm_package() {
    local package=$1 integrity=$2 folder=$3 unpacked
    [[ -e $folder/$package ]] && return
    say "fetching from npm: $package"
    unpacked=$(mktemp -d)
    (cd "$unpacked" && npm pack --silent "$package" >/dev/null && tar -xzf ./*.tgz)
    if [[ sha512-$(openssl dgst -sha512 -binary "$unpacked"/*.tgz | base64 -w0) != "$integrity" ]]; then
        say "$package is not what it was: its check sum differs"
        exit 1
    fi
    mkdir -p "$folder"
    (cd "$unpacked/package" && cp -r "${@:4}" "$folder/")
    touch "$folder/$package"
    rm -r "$unpacked"
}
# What judges the page's accessibility.
npm_package axe-core@4.14.1 \
    sha512-FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ== \
    /usr/local/lib/ibemu-tests/axe-core axe.min.js
# And its types.
npm_package typescript@5.9.3 \
    sha512-jl1vZzPDinLr9eUt3J/t7V6FgNEw9QjvBPdysz9KfQDD41fQrC2Y4vKQdiaUpFT4bXlb1RHhLpp8wtm6M5TgSw== \
    /usr/local/lib/ibemu-tests/typescript lib
if ! cargo nextest --version >/dev/null 2>&1; then
    say 'installing cargo-nextest'
    cargo install cargo-nextest --locked --quiet
fi

# One profile and one build for all: the end-to-end tests run the daemons and the command that stand beside
# them. Those of another profile: IBEMU=target/release/ibemu.
cargo nextest run --workspace --locked --no-run
cargo test --workspace --doc --locked --quiet
# Fabrics mostly wait: with three of them on two processors there is room for one test of one process.
exec cargo nextest run --workspace --locked --no-fail-fast --test-threads "$(($(nproc) * 2))" "$@"
