#!/usr/bin/env python3
"""What `ibemu web` costs: the time until the page is served, CPU with one browser open, and the time of a scrape.

usage: benches/web.py [--browser] [TOPOLOGY [SECONDS [PAIRS]]]     fat-tree-8-3, 20 and 3 unless said
       FABRIC=NAME benches/web.py ...     a fabric that is up

CPU is what the scheduler counts (/proc/PID/task/*/schedstat), in nanoseconds, of the fabric's processes (devices, controller, supervisor), of
the server and of the browser's. Windows of SECONDS without a server and with one take turns, so that what the fabric takes by itself is
of the same minutes; the cost is the difference, and the server. One client takes all samples: headless Chromium with --browser, else curl.
Medians of the pairs (least to most). The page is served once the server has answered a request for it. A scrape is one of /metrics, text and
all, by curl, nine times.
"""

import glob
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time
import urllib.request

from page import Browser

IBEMU = os.environ.get("IBEMU", "target/release/ibemu")
# A sampler's first look at a fabric, and a browser's start.
SETTLE_S = float(os.environ.get("SETTLE", "6"))


def cpu_ns(pids):
    """Nanoseconds on a processor of all threads of these processes that run."""
    total = 0
    for pid in pids:
        for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
            try:
                with open(path) as file:
                    total += int(file.read().split()[0])
            except OSError:
                pass
    return total


def children(pid):
    """A process and all that come from it."""
    found = [pid]
    for parent in found:
        for path in glob.glob(f"/proc/{parent}/task/*/children"):
            with open(path) as file:
                found += map(int, file.read().split())
    return found


def ibemu(*arguments):
    return subprocess.run([IBEMU, *arguments], check=True, capture_output=True, text=True).stdout


def fabric_pids(fabric):
    status = ibemu("status", "--json", "--fabric", fabric)
    pids = re.findall(r'"pid": (\d+)', status)
    return sorted({int(pid) for pid in pids})


def share(window_s, *groups):
    """Percent of a core that groups of processes take in a window."""
    before = [cpu_ns(group) for group in groups]
    begun = time.monotonic()
    time.sleep(window_s)
    seconds = time.monotonic() - begun
    return [(cpu_ns(group) - start) / 1e7 / seconds for group, start in zip(groups, before)]


class Server:
    """ibemu web, and one client of it."""

    def __init__(self, fabric, has_browser):
        begun = time.monotonic()
        command = [IBEMU, "web", "--fabric", fabric, "--listen", "127.0.0.1:0"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()
        self.base, token = self.url.split("/?token=")
        self.token = {"Authorization": f"Bearer {token}"}
        self.get("/")
        self.served_s = time.monotonic() - begun
        self.browser = self.curl = None
        if has_browser:
            self.browser = Browser()
            self.browser.ask("POST", "/url", {"url": self.url})
        else:
            arguments = ["curl", "-sN", "-H", f"Authorization: Bearer {token}", f"{self.base}/api/stream"]
            self.curl = subprocess.Popen(arguments, stdout=subprocess.DEVNULL)

    def get(self, path):
        with urllib.request.urlopen(urllib.request.Request(self.base + path, headers=self.token)) as answer:
            return answer.read()

    def client_pids(self):
        return children(self.browser.driver.pid) if self.browser else []

    def scrapes(self):
        times = []
        for _ in range(9):
            begun = time.monotonic()
            text = self.get("/metrics")
            times.append(time.monotonic() - begun)
        return times, len(text)

    def close(self):
        if self.browser:
            self.browser.close()
        if self.curl:
            self.curl.terminate()
            self.curl.wait()
        self.process.send_signal(signal.SIGINT)
        self.process.wait()


def told(values, unit):
    return f"{statistics.median(values):.2f} {unit} ({min(values):.2f} to {max(values):.2f})"


def measure(fabric, topology, window_s, pairs, has_browser):
    pids = fabric_pids(fabric)
    rows = {"idle": [], "fabric": [], "server": [], "browser": []}
    served, scraped, size = [], [], 0
    for _ in range(pairs):
        rows["idle"] += share(window_s, pids)
        server = Server(fabric, has_browser)
        try:
            served.append(server.served_s)
            time.sleep(SETTLE_S)
            fabric_share, server_share, browser_share = share(window_s, pids, [server.process.pid], server.client_pids())
            rows["fabric"].append(fabric_share)
            rows["server"].append(server_share)
            rows["browser"].append(browser_share)
            times, size = server.scrapes()
            scraped += times
            sample = json.loads(server.get("/api/span"))
        finally:
            server.close()
    print(f"{topology}: {len(pids)} processes, {pairs} pairs of {window_s:g} s")
    print(f"page served after {told(served, 's')}")
    print(f"fabric without the server {told(rows['idle'], '% of a core')}, with it {told(rows['fabric'], '%')}")
    print(f"server {told(rows['server'], '%')}, browser {told(rows['browser'], '%')}")
    costs = [with_it + server - idle for idle, with_it, server in zip(rows["idle"], rows["fabric"], rows["server"])]
    print(f"cost in all processes but the browser's {told(costs, '%')}")
    print(f"scrape {told([1000 * seconds for seconds in scraped], 'ms')}, {size} bytes")
    print(f"samples from {sample['first_ms']} to {sample['last_ms']}")


def main():
    arguments = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    topology = arguments[0] if arguments else "fat-tree-8-3"
    window_s = float(arguments[1]) if len(arguments) > 1 else 20
    pairs = int(arguments[2]) if len(arguments) > 2 else 3
    given = os.environ.get("FABRIC")
    fabric = given or f"web{os.getpid()}"
    if not given:
        ibemu("up", topology, "--transport", "shm", "--no-ip", "--verify", "none", "--fabric", fabric)
    try:
        measure(fabric, topology, window_s, pairs, "--browser" in sys.argv)
    finally:
        if not given:
            ibemu("down", "--fabric", fabric)


if __name__ == "__main__":
    main()
