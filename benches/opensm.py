#!/usr/bin/env python3
"""Stock OpenSM and infiniband-diags on ibsim and on a live fabric of the same topology, in pairs.

    benches/opensm.py up [--rounds N] TOPOLOGY...      SUBNET UP with -n 32: seconds on both, and the ratio
    benches/opensm.py reroute [--rounds N] TOPOLOGY    from `link down` to the subnet being up: OpenSM, ours
    benches/opensm.py counters TOPOLOGY                perfquery of every port, ibqueryerrors --counters
    benches/opensm.py flows TOPOLOGY                   `ibemu perf --all --seconds 1`, under OpenSM and under ours
    benches/opensm.py all [--rounds N]                 all of it on the fabrics of BENCHMARKS.md, and one table

Of `up` on the live fabric also the processor time, wake-ups and frames of OpenSM, its host, the switches and the other
hosts, from the start of OpenSM to SUBNET UP.

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


def processes():
    """The fabric's devices: kind and process, by name."""
    devices = json.loads(ibemu("status", "--json"))["devices"]
    return {device["name"]: (device["kind"], device["pid"]) for device in devices}


class Usage:
    """What processes have used so far: seconds of processor time, voluntary context switches, and the frames and
    bytes that their interfaces have sent."""

    def __init__(self, pids, frames=True):
        self.seconds, self.wakeups, self.frames, self.bytes = 0.0, 0, 0, 0
        for pid in pids:
            for task in Path(f"/proc/{pid}/task").iterdir():
                self.seconds += int((task / "schedstat").read_text().split()[0]) / 1e9
                status = (task / "status").read_text()
                self.wakeups += int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", status, re.MULTILINE)[1])
            if frames:
                for line in Path(f"/proc/{pid}/net/dev").read_text().splitlines()[2:]:
                    name, counts = line.split(":")
                    if name.strip() != "lo":
                        fields = counts.split()
                        self.bytes += int(fields[8])
                        self.frames += int(fields[9])

    def since(self, before):
        frames, size = self.frames - before.frames, self.bytes - before.bytes
        mean = f", {frames} frames of {size / frames:.0f} bytes" if frames else ""
        return f"{self.seconds - before.seconds:.3f} s, {self.wakeups - before.wakeups} wake-ups{mean}"


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
        beside = host_of(topology)
        devices = processes()
        groups = {
            "its host": [devices[beside][1]],
            "switches": [pid for kind, pid in devices.values() if kind == "switch"],
            "other hosts": [pid for name, (kind, pid) in devices.items() if kind != "switch" and name != beside],
        }
        before = {what: Usage(pids) for what, pids in groups.items()}
        sm = OpenSm([IBEMU, "exec", "--fabric", FABRIC, beside], folder)
        try:
            seconds = sm.seconds_up()
            used = {what: Usage(pids).since(before[what]) for what, pids in groups.items()}
            own = Usage([sm.child.pid], frames=False)
            used = {"OpenSM": f"{own.seconds:.3f} s, {own.wakeups} wake-ups", **used}
            return seconds, used
        finally:
            sm.stop()
    finally:
        ibemu("down")


def run_up(options):
    rows = []
    for topology in options.topologies:
        ratios, lives, simulations = [], [], []
        for number in range(1, options.rounds + 1):
            with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
                simulated, (live, used) = up_on_ibsim(topology, one), up_on_ibemu(topology, other)
            ratios.append(live / simulated)
            simulations.append(simulated)
            lives.append(live)
            print(f"{topology} round {number}: ibsim {simulated:.3f} s, live {live:.3f} s, ratio {ratios[-1]:.2f}", flush=True)
            for what, how_much in used.items():
                print(f"    {what}: {how_much}", flush=True)
        print(f"{topology}: median ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
        rows.append((f"SUBNET UP, {topology}", f"ibsim {spread(simulations)}, live {spread(lives)}, ratio {spread(ratios)}"))
    return rows


def spread(values):
    """Median, least and most."""
    return f"{statistics.median(values):.3f} ({min(values):.3f} to {max(values):.3f})"


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
    rows = []
    for who, seconds in figures.items():
        rows.append((f"reroute, {topology}, {who}", f"{spread(seconds)} s, {len(seconds)} cables"))
        print(": ".join(rows[-1]), flush=True)
    return rows


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
        rows = [(f"perfquery, {topology}", f"{seconds:.2f} s for {len(ports)} ports, a process each: {seconds / len(ports) * 1e3:.1f} ms each")]
        start = time.monotonic()
        subprocess.run([IBEMU, "exec", "--fabric", FABRIC, host, "ibqueryerrors", "--counters"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        rows.append((f"ibqueryerrors --counters, {topology}", f"{time.monotonic() - start:.2f} s"))
        # What a process takes that has nothing to do with the fabric.
        start = time.monotonic()
        ibemu("exec", host, "bash", "-c", "for i in $(seq 100); do perfquery -V >/dev/null 2>&1; done")
        rows.append(("perfquery -V, which asks nothing", f"{(time.monotonic() - start) * 10:.1f} ms each"))
        for row in rows:
            print(": ".join(row), flush=True)
        return rows
    finally:
        ibemu("down")


def run_flows(options):
    rows = []
    for topology in options.topologies:
        for who in ["OpenSM", "ours"]:
            with tempfile.TemporaryDirectory() as folder:
                ibemu("up", topology, *(["--sm", "none"] if who == "OpenSM" else []))
                try:
                    sm = None
                    if who == "OpenSM":
                        sm = OpenSm([IBEMU, "exec", "--fabric", FABRIC, host_of(topology)], folder)
                        sm.wait_for_ups(1)
                    try:
                        rows.append((f"perf --all --seconds 1, {topology}, {who}", flows_of_one_run()))
                    finally:
                        if sm:
                            sm.stop()
                finally:
                    ibemu("down")
            print(": ".join(rows[-1]), flush=True)
    return rows


def flows_of_one_run():
    """How long each phase takes, by the lines of `ibemu perf` on standard error."""
    start = time.monotonic()
    line = [IBEMU, "perf", "--fabric", FABRIC, "--all", "--seconds", "1"]
    run = subprocess.run(line, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    phases = [" ".join(phase.split()) for phase in run.stderr.splitlines()]
    total = next((found for found in run.stdout.splitlines() if "packets/s" in found), "no result")
    return f"{time.monotonic() - start:.2f} s in all, exit code {run.returncode}; {'; '.join(phases)}; {total}"


def run_all(options):
    rows = []
    for figure, topologies in ALL:
        options.topologies = topologies
        rows += FIGURES[figure](options)
    width = max(len(what) for what, _ in rows)
    print("\n" + "\n".join(f"{what:<{width}}  {figure}" for what, figure in rows))


FIGURES = {"up": run_up, "reroute": run_reroute, "counters": run_counters, "flows": run_flows}
ALL = [
    ("up", ["fat-tree-4-3", "fat-tree-8-3", "fat-tree-16-3"]),
    ("reroute", ["fat-tree-8-3"]),
    ("counters", ["fat-tree-8-3"]),
    ("flows", ["fat-tree-4-3", "fat-tree-8-3"]),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figure", choices=[*FIGURES, "all"])
    parser.add_argument("topologies", nargs="*", metavar="TOPOLOGY")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_intermixed_args()
    if options.figure == "all":
        return run_all(options)
    if not options.topologies:
        parser.error("a topology is missing")
    FIGURES[options.figure](options)


if __name__ == "__main__":
    main()
