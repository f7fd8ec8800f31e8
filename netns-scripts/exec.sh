#!/usr/bin/env bash
# Runs a command beside a node: `ibemu exec` with the same arguments.
#
#   sudo ./netns-scripts/exec.sh [--fabric NAME] NODE COMMAND...
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")
# shellcheck source=netns-scripts/toolchain.bash
source "$here/toolchain.bash"

need_binary "$root"
exec "$root/target/release/ibemu" exec "$@"
