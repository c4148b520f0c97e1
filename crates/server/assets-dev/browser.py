"""Drives a headless Chromium through its debugging pipe; needs nothing but Python and `chromium`."""
import base64
import json
import os
import shutil
import subprocess
import tempfile
import time


class Browser:
    """One browser with one page. Console errors and exceptions are kept in `complaints`."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="dash-")
        read_theirs, self.write_end = os.pipe()
        self.read_end, write_theirs = os.pipe()
        self.process = subprocess.Popen(
            ["sh", "-c", f'exec 3<&{read_theirs} 4>&{write_theirs}; exec "$@"', "sh", "chromium", "--headless=new",
             "--no-sandbox", "--remote-debugging-pipe", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={self.folder}"],
            pass_fds=(read_theirs, write_theirs), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        os.close(read_theirs)
        os.close(write_theirs)
        self.buffer, self.number, self.session, self.complaints, self.received = b"", 0, None, [], 0
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write_end, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.next_message()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def next_message(self):
        while b"\0" not in self.buffer:
            part = os.read(self.read_end, 1 << 20)
            if not part:
                raise RuntimeError("the browser is gone")
            self.buffer += part
        line, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(line)
        self.note(message)
        return message

    def note(self, message):
        params = message.get("params", {})
        match message.get("method"):
            case "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                self.complaints.append(details.get("exception", {}).get("description") or details["text"])
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning"):
                self.complaints.append(" ".join(str(a.get("value", a.get("description"))) for a in params["args"]))
            case "Log.entryAdded" if params["entry"]["level"] in ("error", "warning"):
                self.complaints.append(params["entry"]["text"] + " " + params["entry"].get("url", ""))
            case "Network.loadingFinished":
                self.received += params["encodedDataLength"]

    def size(self, width, height, dark=False, phone=False, reduced=True):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce" if reduced else "no-preference"}])

    def go(self, url, wait=1.5):
        self.call("Page.navigate", url=url)
        self.rest(wait)

    def rest(self, seconds):
        """Waits, and takes in what the browser says meanwhile."""
        end = time.time() + seconds
        while time.time() < end:
            time.sleep(0.1)
            self.call("Runtime.evaluate", expression="0")

    def run(self, script):
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"].get("exception", {}).get("description"))
        return answer["result"].get("value")

    def wait_for(self, script, seconds=10):
        end = time.time() + seconds
        while time.time() < end:
            if self.run(script):
                return True
            time.sleep(0.05)
        raise TimeoutError(script)

    def key(self, text):
        known = {"Enter": 13, "Tab": 9, "Escape": 27}
        named = text in known
        for kind in ("keyDown", "keyUp"):
            extra = {"windowsVirtualKeyCode": known[text], "text": "\r" if text == "Enter" else ""} if named else {"text": text}
            self.call("Input.dispatchKeyEvent", type=kind, key=text, **(extra if kind == "keyDown" else {}))

    def shot(self, path, whole=False):
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        with open(path, "wb") as out:
            out.write(base64.b64decode(data))

    def close(self):
        try:
            self.call("Browser.close")
        except (RuntimeError, OSError):
            pass
        self.process.wait(10)
        shutil.rmtree(self.folder, ignore_errors=True)
