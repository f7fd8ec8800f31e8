#!/usr/bin/env bash
# Takes a fabric down: `ibemu down` with the same arguments.
#
#   sudo ./netns-scripts/down.sh [--fabric NAME | --all]
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")
# shellcheck source=netns-scripts/toolchain.bash
source "$here/toolchain.bash"

need_binary "$root"
exec "$root/target/release/ibemu" down "$@"
