#!/usr/bin/env python3
"""How long pictures of the page's map take in headless Chromium, without a graphics card, while it is moved and zoomed.

usage: benches/page.py [TOPOLOGY] [PICTURES]     fat-tree-16-3 and 300 unless said

Brings the fabric up over shared memory, records a few seconds, takes it down, and opens the recording by --replay: nothing
but the browser is at work. A picture is timed from one call of requestAnimationFrame to the next, in which the map was moved or zoomed by one
step; a screen of 60 Hz wants one each 16.7 ms. Needs Debian's chromium and chromium-driver.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

IBEMU = os.environ.get("IBEMU", "target/release/ibemu")
SETTLE_S = 20

MEASURE = """
const [pictures, done] = [arguments[0], arguments[arguments.length - 1]];
const canvas = document.querySelector("fabric-map canvas");
const times = { moved: [], zoomed: [] };
const at = (type, x, y) => canvas.dispatchEvent(new PointerEvent(type, { pointerId: 1, clientX: x, clientY: y, bubbles: true }));
// A pointer that was not pressed cannot be captured.
canvas.setPointerCapture = () => {};
const { left, top, width, height } = canvas.getBoundingClientRect();
const middle = { x: left + width / 2, y: top + height / 2 };
let picture = 0;
let last = null;
at("pointerdown", middle.x, middle.y);
const step = (now) => {
  const isMove = picture < pictures;
  if (last !== null) (isMove ? times.moved : times.zoomed).push(now - last);
  last = now;
  if (picture === pictures) { at("pointerup", middle.x + 99, middle.y); last = null; }
  if (picture === 2 * pictures) return done(times);
  const turn = picture / 20;
  if (isMove) at("pointermove", middle.x + 150 * Math.sin(turn), middle.y + 80 * Math.sin(turn * 0.7));
  else canvas.dispatchEvent(new WheelEvent("wheel", { deltaY: Math.sin(turn) * 40, clientX: middle.x, clientY: middle.y, cancelable: true }));
  picture += 1;
  requestAnimationFrame(step);
};
requestAnimationFrame(step);
"""


def ibemu(*arguments):
    return subprocess.run([IBEMU, *arguments], check=True, capture_output=True, text=True).stdout


def served(*arguments):
    """A server of the page, and its address."""
    server = subprocess.Popen([IBEMU, "web", "--listen", "127.0.0.1:0", *arguments], stdout=subprocess.PIPE, text=True)
    return server, server.stdout.readline().strip()


def record(topology, path):
    fabric = f"page{os.getpid()}"
    ibemu("up", topology, "--transport", "shm", "--no-ip", "--verify", "none", "--fabric", fabric)
    try:
        server, _ = served("--fabric", fabric, "--record", path)
        try:
            subprocess.run([IBEMU, "traffic", "uniform", "--rate", "200K", "--seconds", "5", "--fabric", fabric], capture_output=True)
            time.sleep(SETTLE_S)
        finally:
            server.send_signal(signal.SIGINT)
            server.wait()
    finally:
        ibemu("down", "--fabric", fabric)


class Browser:
    """A browser by WebDriver."""

    def __init__(self):
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, text=True)
        for line in self.driver.stdout:
            if found := re.search(r"started successfully on port (\d+)", line):
                self.base = f"http://127.0.0.1:{found.group(1)}"
                break
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1280,860"]
        wanted = {"capabilities": {"alwaysMatch": {"goog:chromeOptions": {"args": arguments}, "timeouts": {"script": 120000}}}}
        self.base += "/session/" + self.ask("POST", "/session", wanted)["sessionId"]

    def ask(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, {"content-type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=180) as answer:
            return json.load(answer)["value"]

    def script(self, text, *arguments, kind="sync"):
        return self.ask("POST", f"/execute/{kind}", {"script": text, "args": list(arguments)})

    def close(self):
        self.ask("DELETE", "")
        self.driver.terminate()
        self.driver.wait()


def percentile(times, part):
    times = sorted(times)
    return times[min(len(times) - 1, int(len(times) * part))]


def main():
    topology = sys.argv[1] if len(sys.argv) > 1 else "fat-tree-16-3"
    pictures = int(sys.argv[2]) if len(sys.argv) > 2 else 300
    with tempfile.TemporaryDirectory() as folder:
        path = os.environ.get("RECORDING") or os.path.join(folder, "recording")
        if not os.path.exists(path):
            record(topology, path)
        server, url = served("--replay", path)
        browser = Browser()
        try:
            begun = time.monotonic()
            browser.ask("POST", "/url", {"url": url})
            while not browser.script("return document.querySelector('#state').textContent.includes('devices')"):
                time.sleep(0.01)
            opened = time.monotonic() - begun
            times = browser.script(MEASURE, pictures, kind="async")
            told = browser.script("return document.querySelector('#state').textContent")
            print(f"{topology}: {told}; opened after {opened:.2f} s")
            for what, values in times.items():
                p50, p99 = percentile(values, 0.5), percentile(values, 0.99)
                print(f"{what}: {len(values)} pictures, p50 {p50:.1f} ms, p99 {p99:.1f} ms, longest {max(values):.1f} ms")
        finally:
            browser.close()
            server.send_signal(signal.SIGINT)
            server.wait()


if __name__ == "__main__":
    main()
