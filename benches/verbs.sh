#!/usr/bin/env bash
# Speed of programs of verbs on one switch, unpaced, beside TCP and UDP over a Linux bridge of veth, in turns: bandwidth of
# ib_write_bw and ib_read_bw (64 KiB, path MTU 4096) and of iperf3 (TCP, one stream), half a round trip of ib_send_lat (64 bytes) and
# of a ping-pong by UDP sockets, CPU of hosts and switch per 4 KiB. Needs root, perftest, iperf3, iproute2 and a C compiler.
#
# usage: benches/verbs.sh [SECONDS] [RUNS] [TRANSPORT]     a line a run
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seconds=${1:-5} runs=${2:-5} transport=${3:-udp}
ibemu=${IBEMU:-target/release/ibemu}
name=verbs$$ scratch=$(mktemp -d)
children=()
finish() {
    for child in "${children[@]}"; do kill "$child" 2>/dev/null || true; done
    "$ibemu" down --fabric "$name" >/dev/null 2>&1 || true
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

"$ibemu" up star-2 --transport "$transport" --unpaced --mtu 4096 --buffer 131072 --fabric "$name" >/dev/null 2>&1
mapfile -t pids < <("$ibemu" status --fabric "$name" --json |
    python3 -c 'import json,sys; [print(d["pid"]) for d in json.load(sys.stdin)["devices"] if d["name"] in ("h0", "h1", "s0")]')

# Clock ticks of CPU that hosts and switch have used.
ticks() {
    local pid sum=0
    for pid in "${pids[@]}"; do sum=$((sum + $(awk '{ print $14 + $15 }' "/proc/$pid/stat"))); done
    echo "$sum"
}

# The last row of what a program of perftest prints between the two hosts.
perftest() {
    local port=$((20000 + RANDOM % 10000)) server
    "$ibemu" --fabric "$name" exec h0 "$@" -F -p "$port" >/dev/null 2>&1 &
    server=$!
    until ss -ltn | grep -q ":$port "; do :; done
    "$ibemu" --fabric "$name" exec h1 "$@" -F -p "$port" h0 | awk '$1 + 0 > 0 && NF > 3 { row = $0 } END { print row }'
    wait "$server"
}

# Bandwidth in MB/s and microseconds of CPU per 4 KiB. perftest's own figure counts 2^20 bytes.
bandwidth() {
    local before row
    before=$(ticks)
    # shellcheck disable=SC2046
    row=$(perftest "$1" -s 65536 -m 4096 -n "$2")
    awk -v ticks="$(($(ticks) - before))" -v hz="$(getconf CLK_TCK)" \
        '{ printf "%.0f %.2f", $4 * 1.048576, ticks / hz * 1e6 / ($2 * 16) }' <<<"$row"
}

printf '%3s %12s %10s %10s %10s %10s %12s %12s\n' run 'TCP MB/s' 'write MB/s' 'us/4 KiB' 'read MB/s' 'us/4 KiB' 'UDP us' 'send_lat us'
for ((run = 1; run <= runs; run++)); do
    tcp=$(ip netns exec "$name.a" iperf3 --client 10.99.0.2 --time "$seconds" --json |
        python3 -c 'import json,sys; print(round(json.load(sys.stdin)["end"]["sum_received"]["bits_per_second"] / 8e6))')
    read -r write write_cpu <<<"$(bandwidth ib_write_bw $((seconds * 4000)))"
    read -r read read_cpu <<<"$(bandwidth ib_read_bw $((seconds * 4000)))"
    udp=$(ip netns exec "$name.a" "$scratch/pingpong" 10.99.0.2 20000)
    latency=$(perftest ib_send_lat -s 64 -n 5000 | awk '{ print $5 }')
    printf '%3s %12s %10s %10s %10s %10s %12s %12s\n' "$run" "$tcp" "$write" "$write_cpu" "$read" "$read_cpu" "$udp" "$latency"
done
