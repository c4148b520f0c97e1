#!/usr/bin/env python3
"""Takes docs/images/dashboard.webp: the dashboard of a real run, in which agents are killed.

dashboard.py RELIGHT    RELIGHT is the binary to run; needs chromium and chromedriver
"""

import base64
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

OUT = pathlib.Path(__file__).with_suffix(".webp")
WIDTH, HEIGHT, BYTES_MAX = 1280, 800, 150_000
CONFIG = """
[daemon]
listen = "127.0.0.1:0"
[recovery]
cooldown = "1s"
[[agent]]
name = "writer"
command = ["./writer.sh"]
[[agent]]
name = "reader"
command = ["./reader.sh"]
takes = "start"
concurrency = 2
skills = ["read"]
[[agent]]
name = "deployer"
command = ["./deploy.sh"]
[[agent]]
name = "indexer"
command = ["./index.sh"]
max_attempts = 1
"""
SCRIPTS = {
    "writer.sh": """
eval "$(relight task start weekly-report --title 'Weekly report' --export)"
for step in fetch outline draft; do relight step run $step -- sleep 1; done
relight beat --status 'writing the summary'
relight step run summary -- sleep 600
""",
    "reader.sh": """
relight step run fetch -- sleep 1
relight step run extract -- sleep 600
""",
    "deploy.sh": """
task=$(relight task start release-2.1 --title 'Release 2.1' --export) || exit
eval "$task"
relight step run build -- sleep 1
relight step run publish --repeat once -- sleep 600
""",
    "index.sh": "echo 'the index is locked'; exit 3",
}


class Run:
    """The daemon with its agents, in a folder of its own."""

    def __init__(self, relight: str, folder: str) -> None:
        self.relight, self.folder = relight, folder
        path = f"{pathlib.Path(relight).resolve().parent}:{os.environ['PATH']}"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("RELIGHT_")}
        self.env = {**kept, "PATH": path, "RELIGHT_HOME": f"{folder}/state"}

    def call(self, *words: str) -> str:
        done = subprocess.run([self.relight, *words], cwd=self.folder, env=self.env, capture_output=True, text=True)
        return done.stdout

    def wait(self, what: str, *words: str) -> None:
        """Until the output of a command has this text."""
        until = time.monotonic() + 60
        while what not in self.call(*words):
            if time.monotonic() > until:
                sys.exit(f"dashboard.py: in vain waited for {what!r}:\n{self.call(*words)}")
            time.sleep(0.1)

    def kill(self, agent: str) -> None:
        pid = json.loads(self.call("ps", agent, "--json"))["items"][0]["pid"]
        os.kill(pid, 9)


def play(run: Run) -> None:
    """Three crashes from which agents come back, a step in doubt, and an agent that is given up."""
    run.call("up", "-d")
    for page in ("guide", "pricing", "changelog"):
        run.call("task", "add", f"page-{page}", "--skill", "read", "--title", f"Read the page {page}")
    run.wait("outline", "step", "list", "--task", "weekly-report")
    run.kill("writer")
    run.wait("publish", "step", "list", "--task", "release-2.1")
    run.kill("deployer")
    run.wait("page-guide · extract", "ps")
    run.kill("reader-1")
    run.wait("terminated", "ps", "--state", "terminated")
    run.wait("blocked", "task", "list")
    run.wait("weekly-report · summary", "ps")
    run.wait("reader-1  running", "ps")


def photograph(url: str) -> bytes:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    driver = subprocess.Popen(["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL)

    def ask(path: str, body: dict) -> dict:
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/session{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        return json.load(urllib.request.urlopen(request, timeout=60))["value"]

    session = ""
    try:
        for _ in range(100):
            if socket.socket().connect_ex(("127.0.0.1", port)) == 0:
                break
            time.sleep(0.1)
        words = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        options = {"goog:chromeOptions": {"args": words}}
        session = "/" + ask("", {"capabilities": {"alwaysMatch": options}})["sessionId"]

        def devtools(cmd: str, **params: object) -> dict:
            return ask(f"{session}/goog/cdp/execute", {"cmd": cmd, "params": params})

        devtools("Emulation.setDeviceMetricsOverride", width=WIDTH, height=HEIGHT, deviceScaleFactor=1, mobile=False)
        devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}])
        ask(f"{session}/url", {"url": url})
        time.sleep(4)  # Live data and charts.
        return base64.b64decode(devtools("Page.captureScreenshot", format="webp", quality=80)["data"])
    finally:
        if session:
            ask(f"{session}/goog/cdp/execute", {"cmd": "Browser.close", "params": {}})
        driver.terminate()
        driver.wait()


def main(relight: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "relight.toml").write_text(CONFIG)
        for name, text in SCRIPTS.items():
            script = pathlib.Path(folder, name)
            script.write_text(f"#!/usr/bin/env bash\n{text}")
            script.chmod(0o755)
        run = Run(relight, folder)
        try:
            play(run)
            picture = photograph(run.call("dashboard", "--print").strip())
        finally:
            run.call("down")
    if len(picture) > BYTES_MAX:
        sys.exit(f"dashboard.py: {len(picture)} bytes, more than {BYTES_MAX}")
    OUT.write_bytes(picture)
    print(f"{OUT}: {len(picture)} bytes")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(os.path.abspath(sys.argv[1]))
