#!/usr/bin/env bash
# Speed of a live fabric, host-switch-host: throughput, CPU in the switch, frames a second, and the
# unloaded round trip, on veth and over UDP, with aggregation and without. Needs root (veth).
#
# usage: benches/live.sh [SECONDS] [RUNS]     prints one line a run, then the medians
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seconds=${1:-5} runs=${2:-5}
ibemu=${IBEMU:-target/release/ibemu}
fabric=bench$$
trap '"$ibemu" down --fabric "$fabric" >/dev/null 2>&1 || true' EXIT

# Clock ticks of CPU that a process has used.
ticks() { awk '{ print $14 + $15 }' "/proc/$1/stat"; }

# The pid of a device.
pid_of() {
    "$ibemu" status --fabric "$fabric" --json |
        python3 -c 'import json,sys; print(next(d["pid"] for d in json.load(sys.stdin)["devices"] if d["name"]==sys.argv[1]))' "$1"
}

median() { sort -n | awk '{ v[NR] = $1 } END { print (NR % 2) ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }

# Frames that the switch has sent towards h1 (veth: its interface's count; UDP has none of its own).
frames() {
    if [[ $1 == veth ]]; then
        ip -n "$fabric.s0" -json -stats link show p2 |
            python3 -c 'import json,sys; print(json.load(sys.stdin)[0]["stats64"]["tx"]["packets"])'
    else
        echo 0
    fi
}

hz=$(getconf CLK_TCK)
row() { printf '%-5s %-10s %3s %12s %12s %14s %16s %14s\n' "$@"; }
row link frame run 'packets/s' 'frames/s' 'switch us/pkt' 'all CPU us/pkt' 'RTT median us'
for transport in veth udp; do
    for frame in many 1; do
        options=(--transport "$transport" --unpaced --buffer 131072 --fabric "$fabric")
        [[ $frame == 1 ]] && options+=(--frame-packets 1)
        "$ibemu" up star-2 "${options[@]}" >/dev/null 2>&1
        switch=$(pid_of s0) one=$(pid_of h0) other=$(pid_of h1)
        rates=() costs=() trips=()
        for ((run = 1; run <= runs; run++)); do
            sent=$(frames "$transport")
            before=$(ticks "$switch") hosts=$(($(ticks "$one") + $(ticks "$other")))
            report=$("$ibemu" perf h0 h1 --fabric "$fabric" --size 290 --window 256 --seconds "$seconds" --json)
            used=$(($(ticks "$switch") - before))
            sent=$((($(frames "$transport") - sent) / seconds))
            all=$((used + $(ticks "$one") + $(ticks "$other") - hosts))
            read -r delivered rate < <(python3 -c '
import json, sys
total = json.loads(sys.argv[1])["total"]
print(total["delivered"], int(total["packets_per_second"]))' "$report")
            cost=$(awk "BEGIN { printf \"%.3f\", $used / $hz / $delivered * 1e6 }")
            whole=$(awk "BEGIN { printf \"%.3f\", $all / $hz / $delivered * 1e6 }")
            trip=$("$ibemu" ping h0 h1 --fabric "$fabric" --count 200 --interval 1 --json |
                python3 -c 'import json,sys; print(json.load(sys.stdin)["rtt"]["p50_ns"] / 1000)')
            row "$transport" "$frame" "$run" "$rate" "$sent" "$cost" "$whole" "$trip"
            rates+=("$rate") costs+=("$cost") trips+=("$trip")
        done
        row "$transport" "$frame" med "$(printf '%s\n' "${rates[@]}" | median)" '' \
            "$(printf '%s\n' "${costs[@]}" | median)" '' "$(printf '%s\n' "${trips[@]}" | median)"
        "$ibemu" down --fabric "$fabric" >/dev/null
    done
done
