#!/usr/bin/env bash
# A peer for benches/live.sh: two namespaces joined by a Linux bridge, UDP datagrams of 248 bytes
# (290 with their headers), one a frame, by iperf3. Needs root, iperf3 and iproute2.
#
# usage: benches/peer-bridge.sh [SECONDS] [RUNS]      prints delivered packets a second, a run a line
set -euo pipefail
seconds=${1:-5} runs=${2:-3}
name=peer$$
server=
# Every step is tried, whatever has become of the one before: `wait` tells of the signal.
finish() {
    if [[ -n $server ]]; then
        kill "$server" 2>/dev/null || true
        wait "$server" 2>/dev/null || true
    fi
    for end in a b s; do ip netns delete "$name.$end" 2>/dev/null || true; done
}
trap finish EXIT

for end in a b s; do ip netns add "$name.$end"; done
ip -n "$name.s" link add bridge0 type bridge
ip -n "$name.s" link set bridge0 up
for end in a b; do
    ip link add p1 netns "$name.$end" type veth peer name "to-$end" netns "$name.s"
    ip -n "$name.s" link set "to-$end" master bridge0 up
    ip -n "$name.$end" link set p1 up
done
ip -n "$name.a" address add 10.99.0.1/24 dev p1
ip -n "$name.b" address add 10.99.0.2/24 dev p1
ip netns exec "$name.b" iperf3 --server >/dev/null 2>&1 &
server=$!
until ip netns exec "$name.b" ss -ltn | grep -q 5201; do :; done
for ((run = 0; run < runs; run++)); do
    ip netns exec "$name.a" iperf3 --client 10.99.0.2 --udp --bitrate 0 --length 248 --time "$seconds" --json |
        python3 -c '
import json, sys
end = json.load(sys.stdin)["end"]["sum"]
print(int((end["packets"] - end["lost_packets"]) / end["seconds"]))'
done
