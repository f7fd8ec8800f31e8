#!/usr/bin/env bash
# What `ibemu web` costs: the time until the page is served, and CPU with one page open that takes all samples (curl in place of a
# browser): of the server, and of all processes of the fabric above what they take without it.
#
# usage: benches/web.sh [TOPOLOGY] [SECONDS]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

topology=${1:-fat-tree-8-3} seconds=${2:-30}
ibemu=${IBEMU:-target/release/ibemu}
name=web$$ scratch=$(mktemp -d)
children=()
finish() {
    for child in "${children[@]}"; do kill "$child" 2>/dev/null || true; done
    "$ibemu" down --fabric "$name" >/dev/null 2>&1 || true
    rm -r "$scratch"
}
trap finish EXIT

# cpu PID...: clock ticks in user and kernel mode, of all of them (fields 14 and 15 of /proc/PID/stat).
cpu() {
    local total=0 pid stat fields
    for pid in "$@"; do
        stat=$(<"/proc/$pid/stat") || continue
        read -ra fields <<<"${stat##*) }"
        total=$((total + fields[11] + fields[12]))
    done
    echo "$total"
}
# percent TICKS: of one core, in the time measured.
percent() { awk -v ticks="$1" -v hertz="$(getconf CLK_TCK)" -v seconds="$seconds" 'BEGIN { printf "%.2f", 100 * ticks / hertz / seconds }'; }

"$ibemu" up "$topology" --transport udp --no-ip --fabric "$name" --verify none >/dev/null
mapfile -t pids < <("$ibemu" status --fabric "$name" --json | sed -n 's/^ *"pid": \([0-9]*\),*$/\1/p')
sleep 5
before=$(cpu "${pids[@]}")
sleep "$seconds"
idle=$(($(cpu "${pids[@]}") - before))

begun=$(date +%s%N)
"$ibemu" web --fabric "$name" --listen 127.0.0.1:0 >"$scratch/url" &
server=$!
children+=("$server")
until [[ -s $scratch/url ]] && curl -sf -o /dev/null -c "$scratch/cookies" "$(<"$scratch/url")"; do sleep 0.01; done
started=$((($(date +%s%N) - begun) / 1000000))
url=$(<"$scratch/url")
curl -sN -b "$scratch/cookies" "${url%%\?*}api/stream" >"$scratch/stream" &
children+=("$!")
sleep 5
before=$(cpu "${pids[@]}") before_server=$(cpu "$server")
sleep "$seconds"
server_cpu=$(($(cpu "$server") - before_server)) fabric=$(($(cpu "${pids[@]}") - before))
samples=$(grep -c '^event: sample' "$scratch/stream")
echo "$topology: page served after $started ms, $samples samples; server $(percent "$server_cpu") % of a core," \
    "fabric $(percent "$fabric") % ($(percent "$idle") % without it)"
