#!/usr/bin/env bash
# What sampling every port once a second costs, and how long a scrape takes to render. Needs no root.
#
# usage: benches/monitor.sh [TOPOLOGY] [SECONDS]     fat-tree-16-3 and 30 unless said
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

topology=${1:-fat-tree-16-3} seconds=${2:-30}
ibemu=${IBEMU:-target/release/ibemu}
fabric=bench$$
trap '"$ibemu" down --fabric "$fabric" >/dev/null 2>&1 || true' EXIT

"$ibemu" up "$topology" --transport shm --no-ip --fabric "$fabric" >/dev/null
status=$("$ibemu" status --fabric "$fabric" --json)
directory=$(python3 -c 'import json,sys; print(json.load(sys.stdin)["directory"])' <<<"$status")
read -r host pids < <(python3 -c '
import json, sys
devices = json.load(sys.stdin)["devices"]
hosts = [d["name"] for d in devices if d["kind"] == "host"]
print(hosts[0], *(d["pid"] for d in devices if d["pid"]))' <<<"$status")
# shellcheck disable=SC2086 # each process id is an argument
cargo bench --quiet -p monitor --bench sampling -- "$directory/$host.mad" "$seconds" $pids
