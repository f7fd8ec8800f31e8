#!/usr/bin/env python3
"""Tables of stock OpenSM's engines beside ours, on descriptions of fabrics.

    benches/quality.py [--draws N] [--limit SECONDS] [--engines ENGINE,..] TOPOLOGY...

Each fabric is written for ibsim, where OpenSM routes it by each of its engines (-R); dump_fts reads the tables from the
switches, and `ibemu verify --tables` judges them. Ours are of the same file, on the four VLs of a live fabric: the best that `auto`
measures, and all others without problems. Both are judged by the same pairings: a hundred from each of --draws seeds.

Prints a row of Markdown a fabric: flows on the busiest cable when all send to all / effective bisection bandwidth, with the spread
of its mean over the seeds. Exit code 1 if the best of OpenSM's is better in either. Needs opensm, ibsim-utils, infiniband-diags,
and a release build (or IBEMU=path).
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
IBEMU = os.environ.get("IBEMU", str(ROOT / "target/release/ibemu"))
PRELOAD = "/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so"
# OpenSM 3.3.23 has no nue.
ENGINES = "minhop,updn,dnup,ftree,lash,dfsssp"
PAIRINGS = 100


def ibemu(*words):
    """Its output; the verdict is in there."""
    ran = subprocess.run([IBEMU, *words], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if not ran.stdout:
        raise SystemExit(f"ibemu {' '.join(words)}: {ran.stderr}")
    return ran.stdout


class Ibsim:
    """A running ibsim, whose abstract sockets have a name of their own."""

    def __init__(self, net, folder):
        self.name = f"quality-{os.getpid()}"
        self.log = Path(folder) / "ibsim.log"
        limits = ["-N", "4096", "-S", "1024", "-P", "65536"]
        self.child = subprocess.Popen(
            ["stdbuf", "-oL", "ibsim", "-s", "-n", *limits, str(net)],
            cwd=folder, env={**os.environ, "IBSIM_SOCKNAME": self.name},
            stdin=subprocess.DEVNULL, stdout=self.log.open("wb"), stderr=subprocess.STDOUT)
        end = time.monotonic() + 30
        while f"@{self.name}:ctl" not in Path("/proc/net/unix").read_text():
            if self.child.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"ibsim does not start: {self.log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.02)

    def run(self, line, folder, host, limit):
        environment = {
            **os.environ, "IBSIM_SOCKNAME": self.name, "LD_PRELOAD": PRELOAD, "SIM_HOST": host,
            "OSM_TMP_DIR": str(folder), "OSM_CACHE_DIR": str(folder),
        }
        return subprocess.run(line, cwd=folder, env=environment, timeout=limit, text=True, errors="replace",
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def stop(self):
        self.child.kill()
        self.child.wait()


def first_ports(net):
    """Hosts whose port 1 has a cable: that is where ibsim's client library lets OpenSM be."""
    said = json.loads(ibemu("topo", str(net), "--format", "json"))
    nodes = said["nodes"]
    ends = [end for link in said["links"] for end in link["ends"]]
    return [nodes[end["node"]]["name"] for end in ends if end["port"] == 1 and nodes[end["node"]]["kind"] == "host"]


def of_opensm(net, host, engine, limit, folder):
    """The file with its tables, or why there is none."""
    simulator = Ibsim(net, folder)
    try:
        line = ["opensm", "-o", "-R", engine, "-f", "opensm.log", "-D", "0x43", "--dump_files_dir", ".", "--pidfile", "pid"]
        # OpenSM names the engine that has routed at last, which is minhop where the one that was asked for gave up.
        try:
            simulator.run(line, folder, host, limit)
        except subprocess.TimeoutExpired:
            return None, f"not up in {limit} s"
        log = (Path(folder) / "opensm.log").read_text(errors="replace")
        if f"{engine} tables configured on all switches" not in log:
            return None, "gives up"
        tables = Path(folder) / "tables"
        tables.write_text(simulator.run(["dump_fts"], folder, host, limit).stdout)
        return tables, ""
    finally:
        simulator.stop()


def judged(net, draws, *words):
    """Busiest cable, bisection by seed, and what is wrong."""
    bisections, report = [], None
    for draw in range(draws):
        report = json.loads(ibemu("verify", str(net), *words, "--seed", str(1 + PAIRINGS * draw), "--json"))
        quality = report["quality"]
        bisections.append(quality["effective_bisection_bandwidth"]["mean"])
    wrong = [problem["kind"] for problem in report["problems"]]
    return quality["loads"]["all-to-all"]["max"], bisections, wrong


def shown(busiest, bisections, wrong):
    spread = f" ± {statistics.stdev(bisections):.3f}" if len(bisections) > 1 else ""
    loops = " (credit loops)" if "deadlock" in wrong else ""
    unreached = " (unreached)" if "unreachable" in wrong or "loop" in wrong else ""
    return f"{busiest} / {statistics.mean(bisections):.4f}{spread}{loops}{unreached}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=10, metavar="N")
    parser.add_argument("--limit", type=int, default=300, metavar="SECONDS")
    parser.add_argument("--engines", default=ENGINES)
    parser.add_argument("topologies", nargs="+", metavar="TOPOLOGY")
    options = parser.parse_args()
    is_worse = False
    print("| fabric | `auto` takes | our others | OpenSM |\n|---|---|---|---|")
    for topology in options.topologies:
        with tempfile.TemporaryDirectory() as folder:
            net = Path(folder) / "fabric.net"
            # ibsim 0.10 knows no NDR.
            net.write_text(re.sub(r" e=\d+", "", ibemu("topo", topology, "--format", "ibsim")))
            hosts = first_ports(net)
            if len(hosts) < 2:
                print(f"| {Path(topology).name} | no two hosts | - | - |", flush=True)
                continue
            compared = json.loads(ibemu("compare", str(net), "--json"))["engines"]
            ours = {}
            for line in compared:
                name = line["engine"]
                ours[name] = judged(net, options.draws, "--routing", name)
            taken = compared[0]["engine"]
            theirs = {}
            for engine in options.engines.split(","):
                with tempfile.TemporaryDirectory() as own:
                    tables, why = of_opensm(net, hosts[0], engine, options.limit, own)
                    theirs[engine] = judged(net, options.draws, "--tables", str(tables)) if tables else why
            found = [line for line in theirs.values() if not isinstance(line, str)]
            best = (min((line[0] for line in found), default=0), max((statistics.mean(line[1]) for line in found), default=0))
            own = ours[taken]
            if found and (own[0] > best[0] or statistics.mean(own[1]) < best[1] - 1e-9):
                is_worse = True
            others = ", ".join(f"{name} {shown(*line)}" for name, line in ours.items() if name != taken)
            said = ", ".join(f"{name} {line if isinstance(line, str) else shown(*line)}" for name, line in theirs.items())
            print(f"| {Path(topology).name} | {taken} **{shown(*own)}** | {others} | {said} |", flush=True)
    sys.exit(is_worse)


if __name__ == "__main__":
    main()
