#!/usr/bin/env bash
# A cable between machines: packets of 290 bytes, host-switch-host, one of the two cables a tunnel, sealed and plain, with
# datagrams for MTUs of 1,500 and 9,000, beside UDP inside a machine. Variants take turns, run by run. Then the same with 0.1 % and 1 % of
# the tunnel's datagrams lost, the other cable in shared memory. All of it in a network namespace of its own. Needs root, nsenter, and for losses
# iptables with the match `statistic`.
#
# usage: benches/cut.sh [SECONDS] [RUNS]     a line a run, then the medians, with ratios to UDP
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seconds=${1:-3} runs=${2:-5}
ibemu=${IBEMU:-target/release/ibemu}
bench=cut$$ scratch=$(mktemp -d)
fabrics=()
inside() { nsenter --net="/run/netns/$bench" "$@"; }
finish() {
    for fabric in "${fabrics[@]}"; do inside "$ibemu" down --fabric "$fabric" >/dev/null 2>&1 || true; done
    ip netns delete "$bench" 2>/dev/null || true
    rm -r "$scratch"
}
trap finish EXIT
ip netns add "$bench"
ip -n "$bench" link set lo up

# Brings a fabric up: its name, then options.
up() {
    fabrics+=("$bench-$1")
    inside "$ibemu" up star-2 --unpaced --no-ip --buffer 131072 --fabric "$bench-$1" "${@:2}" >/dev/null 2>&1
}

# Sends for a while: packets a second, and CPU of all three devices a packet, in microseconds.
hz=$(getconf CLK_TCK)
ticks() {
    inside "$ibemu" status --fabric "$1" --json |
        python3 -c 'import json,sys; print(*(device["pid"] for device in json.load(sys.stdin)["devices"]))' |
        tr ' ' '\n' | while read -r pid; do awk '{ print $14 + $15 }' "/proc/$pid/stat"; done | awk '{ sum += $1 } END { print sum }'
}
measure() {
    local fabric=$bench-$1 before after
    before=$(ticks "$fabric")
    report=$(inside "$ibemu" perf h0 h1 --fabric "$fabric" --size 290 --window 256 --seconds "$seconds" --json)
    after=$(ticks "$fabric")
    python3 -c '
import json, sys
total = json.loads(sys.argv[1])["total"]
cpu = (int(sys.argv[3]) - int(sys.argv[2])) / int(sys.argv[4]) / total["delivered"] * 1e6
rate = int(total["packets_per_second"])
lost = total["lost"]
print(f"{rate} {cpu:.3f} {lost}")' "$report" "$before" "$after" "$hz"
}

up udp --transport udp
for mtu in 1500 9000; do
    up "sealed-$mtu" --transport udp --tunnel s0:1 --tunnel-mtu "$mtu"
    up "plain-$mtu" --transport udp --tunnel s0:1 --tunnel-mtu "$mtu" --link-security none
done
variants=(udp sealed-1500 plain-1500 sealed-9000 plain-9000)
for ((run = 1; run <= runs; run++)); do
    for variant in "${variants[@]}"; do
        echo "$variant $run $(measure "$variant")" | tee -a "$scratch/runs"
    done
done
for variant in "${variants[@]}"; do inside "$ibemu" down --fabric "$bench-$variant" >/dev/null; done

# A datagram lost, and not a whole bundle: bundles are cut before they are received.
if inside iptables -A INPUT -p udp -m statistic --mode random --probability 0 -j DROP 2>/dev/null; then
    ip -n "$bench" link set lo gso_max_segs 1
    for per_mille in 0 1 10; do
        variant=lossy-$per_mille
        inside iptables -F INPUT
        up "$variant" --transport shm --tunnel s0:1 --tunnel-mtu 1500
        inside iptables -A INPUT -p udp -m statistic --mode random --probability "0$(printf '.%03d' "$per_mille")" -j DROP
        for ((run = 1; run <= runs; run++)); do
            echo "$variant $run $(measure "$variant")" | tee -a "$scratch/runs"
        done
        inside iptables -F INPUT
        inside "$ibemu" status --fabric "$bench-$variant" --json | python3 -c '
import json, sys
links = json.load(sys.stdin)["links"]
print("links:", links)'
        inside "$ibemu" down --fabric "$bench-$variant" >/dev/null
    done
else
    echo 'no losses: iptables has no match statistic' >&2
fi
python3 - "$scratch/runs" <<'PYTHON'
import statistics
import sys

rows = {}
for line in open(sys.argv[1]):
    variant, run, rate, cpu, lost = line.split()
    rows.setdefault(variant, []).append((float(rate), float(cpu), int(lost)))
for variant, values in rows.items():
    rates, cpus, lost = zip(*values)
    beside = "udp" if not variant.startswith("lossy") else "lossy-0"
    ratios = [one[0] / other[0] for one, other in zip(values, rows[beside])]
    print(
        f"{variant}: {statistics.median(rates) / 1e6:.3f} M packets/s ({min(rates) / 1e6:.3f} to {max(rates) / 1e6:.3f}), "
        f"{statistics.median(cpus):.2f} us of CPU a packet, to {beside} {statistics.median(ratios):.2f} "
        f"({min(ratios):.2f} to {max(ratios):.2f}), {sum(lost)} lost"
    )
PYTHON
