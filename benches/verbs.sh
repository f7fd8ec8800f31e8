#!/usr/bin/env bash
# Speed of programs of verbs and of IP over InfiniBand on one switch, unpaced, beside TCP and UDP over a Linux bridge of veth, in
# turns: bandwidth of ib_write_bw and ib_read_bw (64 KiB, path MTU 4096), of ucx_perftest's tagged messages (64 KiB) and of iperf3 (TCP,
# one stream; the bridge, and ib0 with an MTU of 4092), half a round trip of ib_send_lat (64 bytes) and of a ping-pong by UDP sockets, CPU of
# hosts and switch per 4 KiB. Needs root, perftest, ucx-utils, iperf3, iproute2 and a C compiler.
#
# usage: benches/verbs.sh [--transport veth|udp|shm] [SECONDS] [RUNS]
# a line a run, then ratios: the median of the runs' (least to most)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

transport=udp
if [[ ${1:-} == --transport ]]; then
    transport=${2:?a transport follows}
    shift 2
fi
seconds=${1:-5} runs=${2:-5}
ibemu=${IBEMU:-target/release/ibemu}
name=verbs$$ scratch=$(mktemp -d)
children=()
finish() {
    for child in "${children[@]}"; do kill "$child" 2>/dev/null || true; done
    for fabric in "$name" "$name-ip"; do "$ibemu" down --fabric "$fabric" >/dev/null 2>&1 || true; done
    for end in a b s; do ip netns delete "$name.$end" 2>/dev/null || true; done
    rm -r "$scratch"
}
trap finish EXIT

# Two namespaces joined by a bridge in a third.
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
children+=($!)
cat >"$scratch/pingpong.c" <<'C'
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
int main(int argc, char **argv) {
    char bytes[64] = "";
    int count = argc > 2 ? atoi(argv[2]) : 0, s = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(7777), .sin_addr.s_addr = inet_addr(argv[1]) };
    if (!count) {
        socklen_t length = sizeof at;
        for (bind(s, (void *)&at, sizeof at);;) {
            recvfrom(s, bytes, sizeof bytes, 0, (void *)&at, &length);
            sendto(s, bytes, sizeof bytes, 0, (void *)&at, sizeof at);
        }
    }
    struct timespec from, to;
    connect(s, (void *)&at, sizeof at);
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (int i = 0; i < count; i++)
        if (write(s, bytes, sizeof bytes) < 0 || read(s, bytes, sizeof bytes) < 0) return 1;
    clock_gettime(CLOCK_MONOTONIC, &to);
    printf("%.2f\n", ((to.tv_sec - from.tv_sec) * 1e6 + (to.tv_nsec - from.tv_nsec) / 1e3) / count / 2);
}
C
cc -O2 -o "$scratch/pingpong" "$scratch/pingpong.c"
ip netns exec "$name.b" "$scratch/pingpong" 10.99.0.2 &
children+=($!)

# Two fabrics: that of the programs of verbs, and one of veth for ib0.
printf 'Default=0x7fff, ipoib, mtu=5 : ALL=full;\n' >"$scratch/partitions.conf"
up=(up star-2 --unpaced --mtu 4096 --buffer 131072)
"$ibemu" "${up[@]}" --transport "$transport" --fabric "$name" >/dev/null 2>&1
"$ibemu" "${up[@]}" --transport veth --partitions "$scratch/partitions.conf" --fabric "$name-ip" >/dev/null 2>&1

# The processes of a fabric's hosts and switch.
processes() {
    "$ibemu" status --fabric "$1" --json |
        python3 -c 'import json,sys; [print(d["pid"]) for d in json.load(sys.stdin)["devices"] if d["name"] in ("h0", "h1", "s0")]'
}
mapfile -t of_verbs < <(processes "$name")
mapfile -t of_ip < <(processes "$name-ip")

# Clock ticks of CPU that processes have used.
ticks() {
    local pid sum=0
    for pid in "$@"; do sum=$((sum + $(awk '{ print $14 + $15 }' "/proc/$pid/stat"))); done
    echo "$sum"
}

# Microseconds of CPU per 4 KiB, of clock ticks and bytes.
cpu() {
    awk -v ticks="$1" -v bytes="$2" -v hz="$(getconf CLK_TCK)" 'BEGIN { printf "%.2f", ticks / hz * 1e6 / (bytes / 4096) }'
}

# What the second of two programs prints, which find each other by a TCP port; the first is a server.
meet() {
    local port=$((20000 + RANDOM % 10000)) server
    "$ibemu" --fabric "$name" exec h0 "$@" -p "$port" >/dev/null 2>&1 &
    server=$!
    until "$ibemu" --fabric "$name" exec h0 ss -ltn | grep -q ":$port "; do sleep 0.05; done
    "$ibemu" --fabric "$name" exec h1 "$@" -p "$port" h0
    wait "$server"
}

# The last row of what a program of perftest prints.
perftest() {
    meet "$@" -F | awk '$1 + 0 > 0 && NF > 3 { row = $0 } END { print row }'
}

# Bandwidth of a program of perftest in MB/s, and CPU per 4 KiB. perftest's own figure counts 2^20 bytes.
bandwidth() {
    local before row
    before=$(ticks "${of_verbs[@]}")
    row=$(perftest "$1" -s 65536 -m 4096 -n "$2")
    awk '{ printf "%.0f ", $4 * 1.048576 }' <<<"$row"
    cpu "$(($(ticks "${of_verbs[@]}") - before))" "$(($2 * 65536))"
}

# The same of UCX's tagged messages.
tagged() {
    local before row
    before=$(ticks "${of_verbs[@]}")
    row=$(meet env UCX_TLS=rc_v,self UCX_NET_DEVICES=ibemu0:1 ucx_perftest -t tag_bw -s 65536 -w 10 -n "$1" | grep Final:)
    awk '{ printf "%.0f ", $7 * 1.048576 }' <<<"$row"
    cpu "$(($(ticks "${of_verbs[@]}") - before))" "$(($1 * 65536))"
}

# The same of iperf3 over ib0.
ib0() {
    local before result
    "$ibemu" --fabric "$name-ip" exec h0 iperf3 --server --one-off >/dev/null 2>&1 &
    until "$ibemu" --fabric "$name-ip" exec h0 ss -ltn | grep -q ':5201 '; do sleep 0.05; done
    before=$(ticks "${of_ip[@]}")
    result=$("$ibemu" --fabric "$name-ip" exec h1 iperf3 --client h0 --time "$seconds" --json |
        python3 -c 'import json,sys; r = json.load(sys.stdin)["end"]["sum_received"]; print(round(r["bits_per_second"] / 8e6), round(r["bytes"]))')
    wait $!
    echo "${result% *} $(cpu "$(($(ticks "${of_ip[@]}") - before))" "${result#* }")"
}

form='%3s %9s %10s %8s %9s %8s %8s %8s %8s %8s %8s %11s\n'
# shellcheck disable=SC2059
printf "$form" run 'TCP MB/s' 'write MB/s' us/4KiB 'read MB/s' us/4KiB 'tag MB/s' us/4KiB 'ib0 MB/s' us/4KiB 'UDP us' 'send_lat us'
for ((run = 1; run <= runs; run++)); do
    tcp=$(ip netns exec "$name.a" iperf3 --client 10.99.0.2 --time "$seconds" --json |
        python3 -c 'import json,sys; print(round(json.load(sys.stdin)["end"]["sum_received"]["bits_per_second"] / 8e6))')
    read -r write write_cpu <<<"$(bandwidth ib_write_bw $((seconds * 4000)))"
    read -r read read_cpu <<<"$(bandwidth ib_read_bw $((seconds * 4000)))"
    read -r tag tag_cpu <<<"$(tagged $((seconds * 4000)))"
    read -r ip ip_cpu <<<"$(ib0)"
    udp=$(ip netns exec "$name.a" "$scratch/pingpong" 10.99.0.2 20000)
    latency=$(perftest ib_send_lat -s 64 -n 5000 | awk '{ print $5 }')
    # shellcheck disable=SC2059
    printf "$form" "$run" "$tcp" "$write" "$write_cpu" "$read" "$read_cpu" "$tag" "$tag_cpu" "$ip" "$ip_cpu" "$udp" "$latency"
    echo "$tcp $write $read $tag $ip $udp $latency" >>"$scratch/runs"
done
python3 - "$scratch/runs" <<'PYTHON'
import statistics
import sys

runs = [[float(field) for field in line.split()] for line in open(sys.argv[1])]
for what, bar, ratio in (
    ("write / TCP", "0.5 or more", lambda tcp, write, read, tag, ip, udp, latency: write / tcp),
    ("send_lat / UDP", "1 or less", lambda tcp, write, read, tag, ip, udp, latency: latency / udp),
    ("read / write", "0.7 or more", lambda tcp, write, read, tag, ip, udp, latency: read / write),
    ("tag / write", "0.7 or more", lambda tcp, write, read, tag, ip, udp, latency: tag / write),
    ("ib0 / TCP", "0.15 or more", lambda tcp, write, read, tag, ip, udp, latency: ip / tcp),
):
    ratios = [ratio(*run) for run in runs]
    print(f"{what:15} {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f}), aimed for: {bar}")
PYTHON
