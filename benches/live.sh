#!/usr/bin/env bash
# Speed of a live fabric, host-switch-host: throughput, CPU in the switch, frames a second, and the
# unloaded round trip, on veth, over UDP and in shared memory, with aggregation and without. The transports take
# turns, run by run, so that their ratios are of the same minutes. Needs root (veth).
#
# usage: [TRANSPORTS="veth udp shm"] [FRAMES="many 1"] benches/live.sh [SECONDS] [RUNS]
# A transport may name another build: TRANSPORTS="veth@before/target/release/ibemu veth".
# prints one line a run, then the medians, and those of the ratios to the first transport, run by run
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seconds=${1:-5} runs=${2:-5}
read -ra transports <<<"${TRANSPORTS:-veth udp shm}"
read -ra frames <<<"${FRAMES:-many 1}"
bench=bench$$ scratch=$(mktemp -d)
# The program that a transport names, or the one of this build.
build_of() { [[ $1 == *@* ]] && echo "${1#*@}" || echo "${IBEMU:-target/release/ibemu}"; }
finish() {
    for fabric in "${!fabrics[@]}"; do "${fabrics[$fabric]}" down --fabric "$fabric" >/dev/null 2>&1 || true; done
    rm -r "$scratch"
}
declare -A fabrics=()
trap finish EXIT

# Clock ticks of CPU that a process has used.
ticks() { awk '{ print $14 + $15 }' "/proc/$1/stat"; }

# How often its threads have slept.
sleeps() { cat "/proc/$1"/task/*/status | awk '/^voluntary_ctxt_switches/ { sum += $2 } END { print sum }'; }

# Of a device: its process, or frames that it has sent.
of_device() {
    "$ibemu" status --fabric "$1" --json | python3 -c '
import json, sys
device = next(device for device in json.load(sys.stdin)["devices"] if device["name"] == sys.argv[1])
print(device["pid"] if sys.argv[2] == "pid" else device["frames"]["sent"])' "$2" "$3"
}

hz=$(getconf CLK_TCK)
row() { printf '%-5s %-6s %3s %12s %12s %12s %14s %16s %14s\n' "$@"; }
row link frame run 'packets/s' 'frames/s' 'sleeps/s' 'switch us/pkt' 'all CPU us/pkt' 'RTT median us'
for frame in "${frames[@]}"; do
    for at in "${!transports[@]}"; do
        fabric=$bench-$at-$frame
        ibemu=$(build_of "${transports[at]}")
        fabrics[$fabric]=$ibemu
        options=(--transport "${transports[at]%%@*}" --unpaced --buffer 131072 --fabric "$fabric")
        [[ $frame == 1 ]] && options+=(--frame-packets 1)
        "$ibemu" up star-2 "${options[@]}" >/dev/null 2>&1
    done
    for ((run = 1; run <= runs; run++)); do
        for at in "${!transports[@]}"; do
            transport=${transports[at]} fabric=$bench-$at-$frame
            ibemu=$(build_of "$transport")
            switch=$(of_device "$fabric" s0 pid) one=$(of_device "$fabric" h0 pid) other=$(of_device "$fabric" h1 pid)
            sent=$(of_device "$fabric" s0 sent) slept=$(sleeps "$switch")
            before=$(ticks "$switch") hosts=$(($(ticks "$one") + $(ticks "$other")))
            report=$("$ibemu" perf h0 h1 --fabric "$fabric" --size 290 --window 256 --seconds "$seconds" --json)
            used=$(($(ticks "$switch") - before))
            slept=$((($(sleeps "$switch") - slept) / seconds))
            sent=$((($(of_device "$fabric" s0 sent) - sent) / seconds))
            all=$((used + $(ticks "$one") + $(ticks "$other") - hosts))
            read -r delivered rate < <(python3 -c '
import json, sys
total = json.loads(sys.argv[1])["total"]
print(total["delivered"], int(total["packets_per_second"]))' "$report")
            cost=$(awk "BEGIN { printf \"%.3f\", $used / $hz / $delivered * 1e6 }")
            whole=$(awk "BEGIN { printf \"%.3f\", $all / $hz / $delivered * 1e6 }")
            trip=$("$ibemu" ping h0 h1 --fabric "$fabric" --count 200 --interval 1 --json |
                python3 -c 'import json,sys; print(json.load(sys.stdin)["rtt"]["p50_ns"] / 1000)')
            row "$transport" "$frame" "$run" "$rate" "$sent" "$slept" "$cost" "$whole" "$trip"
            echo "$transport $frame $run $rate $cost $trip" >>"$scratch/runs"
        done
    done
    for at in "${!transports[@]}"; do "$(build_of "${transports[at]}")" down --fabric "$bench-$at-$frame" >/dev/null; done
done
python3 - "$scratch/runs" "${frames[*]}" "${transports[@]}" <<'PYTHON'
import statistics
import sys

rows = [line.split() for line in open(sys.argv[1])]
first, *others = sys.argv[3:]
names = ("packets/s", "switch us/pkt", "RTT us")


def runs(transport, frame):
    return [[float(field) for field in row[3:]] for row in rows if row[:2] == [transport, frame]]


def told(values, form):
    return f"{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


for frame in sys.argv[2].split():
    for transport in (first, *others):
        columns = zip(names, zip(*runs(transport, frame)))
        print(transport, frame, *(f"{name} {told(values, '.3f')}" for name, values in columns), sep="  ")
    for transport in others:
        pairs = zip(runs(transport, frame), runs(first, frame))
        ratios = zip(names, zip(*([one / other for one, other in zip(*pair)] for pair in pairs)))
        print(f"{transport} / {first}", frame, *(f"{name} {told(values, '.3f')}" for name, values in ratios), sep="  ")
PYTHON
