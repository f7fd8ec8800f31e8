#!/usr/bin/env bash
# Many processes in motion: a ring of 44 switches with a host each, 88 processes, every host sending to the next one. A
# packet crosses three cables; hops a second are cables that data packets have crossed. The transports take turns. Needs root (veth).
#
# usage: [TRANSPORTS="veth udp shm"] benches/ring.sh [SECONDS] [RUNS]     a line a run, then the medians, with ratios to UDP
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seconds=${1:-5} runs=${2:-5}
read -ra transports <<<"${TRANSPORTS:-veth udp shm}"
ibemu=${IBEMU:-target/release/ibemu}
fabric=ring$$ scratch=$(mktemp -d)
trap '"$ibemu" down --fabric "$fabric" >/dev/null 2>&1 || true; rm -r "$scratch"' EXIT
for ((run = 1; run <= runs; run++)); do
    for transport in "${transports[@]}"; do
        "$ibemu" up ring-44-1 --transport "$transport" --unpaced --no-ip --verify sample --fabric "$fabric" >/dev/null 2>&1
        hops=$("$ibemu" traffic shift-1 --fabric "$fabric" --seconds "$seconds" --json |
            python3 -c 'import json,sys; print(3 * json.load(sys.stdin)["total"]["packets_per_second"])')
        "$ibemu" down --fabric "$fabric" >/dev/null
        echo "$run $transport $hops" | tee -a "$scratch/runs"
    done
done
python3 - "$scratch/runs" <<'PYTHON'
import statistics
import sys

hops = {}
for line in open(sys.argv[1]):
    run, transport, count = line.split()
    hops.setdefault(transport, []).append(float(count))
for transport, counts in hops.items():
    ratios = [one / other for one, other in zip(counts, hops.get("udp", []))]
    beside = f", to UDP {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})" if ratios else ""
    print(f"{transport}: {statistics.median(counts):.3g} hops/s ({min(counts):.3g} to {max(counts):.3g}){beside}")
PYTHON
