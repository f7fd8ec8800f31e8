#!/usr/bin/env bash
# Brings a fabric up: installs what is missing, builds, then calls `ibemu up` with the same
# arguments. Run as root or through sudo; with `--transport udp` or `shm` no privileges are needed.
#
#   sudo ./netns-scripts/up.sh fat-tree-4-3 [options of `ibemu up`]
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")
# shellcheck source=netns-scripts/toolchain.bash
source "$here/toolchain.bash"

transport=veth
previous=
for argument in "$@"; do
    [[ $previous == --transport ]] && transport=$argument
    case $argument in
        --transport=*) transport=${argument#*=} ;;
        -h | --help) transport=none ;;
    esac
    previous=$argument
done
if [[ $transport == veth ]] && ((EUID != 0)); then
    say "network namespaces need root: sudo ${BASH_SOURCE[0]} $*"
    say 'or, without privileges and namespaces: add --transport udp or --transport shm'
    exit 1
fi

install_missing ip:iproute2 cc:build-essential
build "$root"
exec "$root/target/release/ibemu" up "$@"
