#!/usr/bin/env python3
"""Stock OpenSM and infiniband-diags on ibsim and on a live fabric of the same topology, in pairs.

    benches/opensm.py up [--rounds N] TOPOLOGY...      SUBNET UP with -n 32: seconds on both, and the ratio
    benches/opensm.py reroute [--rounds N] TOPOLOGY    from `link down` to the subnet being up: OpenSM, ours
    benches/opensm.py counters TOPOLOGY                perfquery of every port, ibqueryerrors --counters

Needs root, opensm, ibsim-utils, infiniband-diags and release builds (or IBEMU=path). SUBNET UP is timed by
OpenSM's own log, from the line "Entering DISCOVERING state" on.
"""

import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
IBEMU = os.environ.get("IBEMU", str(ROOT / "target/release/ibemu"))
PRELOAD = "/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so"
FABRIC = f"osm{os.getpid()}"
LIMIT = 300
HOST = {"fat-tree-4-3": "h3.1.1", "fat-tree-8-3": "h5.0.1", "fat-tree-16-3": "h9.0.1"}


def ibemu(*words, **options):
    """`ibemu VERB --fabric NAME ...`"""
    line = [IBEMU, words[0], "--fabric", FABRIC, *words[1:]]
    return subprocess.run(line, check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options).stdout


def host_of(topology):
    """A host that is neither the first nor the last."""
    if topology in HOST:
        return HOST[topology]
    net = subprocess.run([IBEMU, "topo", topology, "--format", "ibsim"], check=True, text=True, stdout=subprocess.PIPE).stdout
    hosts = re.findall(r'^Hca\s+\d+\s+"([^"]+)"', net, re.MULTILINE)
    return hosts[len(hosts) // 2]


class OpenSm:
    """A running OpenSM whose files are in a folder of its own."""

    def __init__(self, command, folder, options=(), env=None):
        self.log = Path(folder) / "opensm.log"
        config = Path(folder) / "opensm.conf"
        config.write_text("force_log_flush TRUE\nfsync_high_avail_files FALSE\n")
        environment = {**os.environ, "OSM_TMP_DIR": str(folder), "OSM_CACHE_DIR": str(folder), **(env or {})}
        line = [*command, "opensm", "-n", "32", "-F", str(config), "-f", str(self.log), "--pidfile", f"{folder}/pid", *options]
        self.output = open(Path(folder) / "output", "wb")
        self.child = subprocess.Popen(line, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=self.output, stderr=self.output)

    def lines(self):
        return self.log.read_text(errors="replace").splitlines() if self.log.exists() else []

    def ups(self):
        return [stamp(line) for line in self.lines() if "SUBNET UP" in line]

    def wait_for_ups(self, count):
        end = time.monotonic() + LIMIT
        while len(self.ups()) < count:
            if self.child.poll() is not None or time.monotonic() > end:
                raise SystemExit("OpenSM is not up:\n" + "\n".join(self.lines()[-20:]))
            time.sleep(0.02)

    def seconds_up(self):
        self.wait_for_ups(1)
        start = next(stamp(line) for line in self.lines() if "Entering DISCOVERING state" in line)
        return self.ups()[0] - start

    def stop(self):
        self.child.send_signal(signal.SIGKILL)
        self.child.wait()
        self.output.close()


def stamp(line):
    """Seconds of a line of OpenSM's log: `Nov 22 17:54:25 183540 [...`, local time."""
    month, day, clock, micros = line.split()[:4]
    at = datetime.strptime(f"{datetime.now().year} {month} {day} {clock}", "%Y %b %d %H:%M:%S")
    return at.timestamp() + int(micros) / 1e6


def up_on_ibsim(topology, folder):
    net = Path(folder) / "net"
    net.write_text(subprocess.run([IBEMU, "topo", topology, "--format", "ibsim"], check=True, text=True, stdout=subprocess.PIPE).stdout)
    # Its abstract sockets live in a network namespace of their own.
    limits = ["-N", "4096", "-S", "1024", "-P", "65536"]
    simulator = subprocess.Popen(["unshare", "-n", "ibsim", "-s", "-n", *limits, str(net)], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 30
        sockets = f"/proc/{simulator.pid}/net/unix"
        while "@sim:ctl" not in Path(sockets).read_text():
            if time.monotonic() > end:
                raise SystemExit("ibsim does not start")
            time.sleep(0.02)
        command = ["nsenter", "-t", str(simulator.pid), "-n"]
        sm = OpenSm(command, folder, env={"LD_PRELOAD": PRELOAD, "SIM_HOST": host_of(topology)})
        try:
            return sm.seconds_up()
        finally:
            sm.stop()
    finally:
        simulator.kill()
        simulator.wait()


def up_on_ibemu(topology, folder):
    ibemu("up", topology, "--sm", "none")
    try:
        sm = OpenSm([IBEMU, "exec", "--fabric", FABRIC, host_of(topology)], folder)
        try:
            return sm.seconds_up()
        finally:
            sm.stop()
    finally:
        ibemu("down")


def run_up(options):
    for topology in options.topologies:
        ratios = []
        for number in range(1, options.rounds + 1):
            with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
                simulated, live = up_on_ibsim(topology, one), up_on_ibemu(topology, other)
            ratios.append(live / simulated)
            print(f"{topology} round {number}: ibsim {simulated:.3f} s, live {live:.3f} s, ratio {ratios[-1]:.2f}", flush=True)
        print(f"{topology}: median ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")


def cables(topology):
    """Some cables between switches, as `NODE:PORT`."""
    net = subprocess.run([IBEMU, "topo", topology, "--format", "ibsim"], check=True, text=True, stdout=subprocess.PIPE).stdout
    found, switch = [], None
    for line in net.splitlines():
        if match := re.match(r'Switch\s+\d+\s+"([^"]+)"', line):
            switch = match[1]
        elif line.startswith("Hca"):
            switch = None
        elif (match := re.match(r'\[(\d+)\]\s+"(s[^"]*)"', line)) and switch and switch < match[2]:
            found.append(f"{switch}:{match[1]}")
    return found[:: max(1, len(found) // 7)]


def controller_ups(folder):
    """Seconds of the lines of the controller's log that say that the subnet is up."""
    ups = []
    for line in (Path(folder) / "log/controller.log").read_text(errors="replace").splitlines():
        if "subnet up" in line and (match := re.match(r"(\S+Z)\s", line)):
            ups.append(datetime.fromisoformat(match[1].replace("Z", "+00:00")).astimezone(timezone.utc).timestamp())
    return ups


def rerouted(ups, cable):
    """Seconds from pulling a cable to the end of the sweep that follows; the cable is plugged again."""
    before = len(ups())
    start = time.time()
    ibemu("link", "down", cable)
    wait_for(lambda: len(ups()) > before)
    seconds = ups()[before] - start
    settle(ups)
    before = len(ups())
    ibemu("link", "up", cable)
    wait_for(lambda: len(ups()) > before)
    settle(ups)
    return seconds


def wait_for(holds):
    end = time.monotonic() + LIMIT
    while not holds():
        if time.monotonic() > end:
            raise SystemExit("nothing was rerouted")
        time.sleep(0.01)


def settle(ups):
    """Until nothing was swept for a second."""
    count = -1
    while count != len(ups()):
        count = len(ups())
        time.sleep(1)


def run_reroute(options):
    topology = options.topologies[0]
    chosen = cables(topology)[: options.rounds]
    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        ibemu("up", topology, "--sm", "none")
        try:
            sm = OpenSm([IBEMU, "exec", "--fabric", FABRIC, host_of(topology)], folder)
            try:
                sm.wait_for_ups(1)
                settle(sm.ups)
                figures["OpenSM"] = [rerouted(sm.ups, cable) for cable in chosen]
            finally:
                sm.stop()
        finally:
            ibemu("down")
    ibemu("up", topology)
    try:
        runtime = Path(os.environ.get("IBEMU_RUNTIME_DIR", "/run/ibemu")) / FABRIC
        settle(lambda: controller_ups(runtime))
        figures["ours"] = [rerouted(lambda: controller_ups(runtime), cable) for cable in chosen]
    finally:
        ibemu("down")
    for who, seconds in figures.items():
        print(f"{topology} reroute, {who}: median {statistics.median(seconds):.3f} s ({min(seconds):.3f} to {max(seconds):.3f}), {len(seconds)} cables")


def run_counters(options):
    topology = options.topologies[0]
    host = host_of(topology)
    ibemu("up", topology)
    try:
        devices = json.loads(ibemu("status", "--json"))["devices"]
        net = subprocess.run([IBEMU, "topo", topology, "--format", "ibsim"], check=True, text=True, stdout=subprocess.PIPE).stdout
        ports, node = [], None
        lids = {device["name"]: device["lid"] for device in devices}
        for line in net.splitlines():
            if match := re.match(r'(?:Switch|Hca)\s+\d+\s+"([^"]+)"', line):
                node = match[1]
            elif match := re.match(r"\[(\d+)\]", line):
                ports.append(f"{lids[node]} {match[1]}")
        script = "set -e; while read -r lid port; do perfquery $lid $port >/dev/null; done"
        start = time.monotonic()
        ibemu("exec", host, "bash", "-c", script, input="\n".join(ports) + "\n")
        seconds = time.monotonic() - start
        print(f"{topology}: perfquery of {len(ports)} ports, a process each: {seconds:.2f} s, {seconds / len(ports) * 1e3:.1f} ms each")
        start = time.monotonic()
        subprocess.run([IBEMU, "exec", "--fabric", FABRIC, host, "ibqueryerrors", "--counters"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        print(f"{topology}: ibqueryerrors --counters: {time.monotonic() - start:.2f} s")
    finally:
        ibemu("down")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figure", choices=["up", "reroute", "counters"])
    parser.add_argument("topologies", nargs="+", metavar="TOPOLOGY")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    {"up": run_up, "reroute": run_reroute, "counters": run_counters}[options.figure](options)


if __name__ == "__main__":
    main()
