#!/usr/bin/env python3
"""Clicks through the dashboard in a headless Chromium against the mock, and says what does not hold."""
import os
import signal
import subprocess
import sys
import time

from browser import Browser

HERE = os.path.dirname(os.path.abspath(__file__))
PORT = 7811
URL = f"http://127.0.0.1:{PORT}/"
ROW = "document.querySelector('tr[data-agent={}]')"


class Mock:
    def __init__(self, *flags):
        self.flags = flags
        self.start()

    def start(self):
        self.process = subprocess.Popen([sys.executable, os.path.join(HERE, "mock.py"), "--port", str(PORT), *self.flags], stdout=subprocess.PIPE)
        self.process.stdout.readline()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def restart_by_button(page):
    row = ROW.format("writer")
    before = page.run(f"{row}.querySelector('.col-attempt').textContent")
    page.run(f"{row}.querySelector('.verb-restart').click()")
    page.wait_for("document.getElementById('ask').open")
    assert "relight restart writer" in page.run("document.getElementById('ask').textContent")
    page.run("document.querySelector('#ask .primary').click()")
    page.wait_for(f"{row}.querySelector('.col-attempt').textContent !== '{before}' && {row}.querySelector('.chip').textContent === 'running'")


def cancel_changes_nothing(page):
    row = ROW.format("tester")
    before = page.run(f"{row}.querySelector('.col-attempt').textContent")
    page.run(f"{row}.querySelector('.verb-stop').focus()")
    page.key("Enter")
    page.wait_for("document.getElementById('ask').open")
    page.key("Escape")
    page.wait_for("!document.getElementById('ask').open")
    page.rest(1.5)
    assert page.run(f"{row}.querySelector('.col-attempt').textContent") == before
    assert page.run(f"{row}.contains(document.activeElement)"), "the focus goes back to the button"


def resolve_a_step_in_doubt(page):
    page.run("[...document.querySelectorAll('.needs li')].find(n => n.textContent.includes('pay-8')).querySelector('.need-do button').click()")
    page.wait_for("document.getElementById('ask').open")
    page.run("document.querySelector('#ask .primary').click()")
    page.wait_for("![...document.querySelectorAll('.needs li')].some(n => n.textContent.includes('pay-8'))")


def daemon_killed_and_restarted(page, mock):
    mock.kill()
    page.wait_for("document.getElementById('link').textContent === 'Disconnected' && !document.getElementById('banner').hidden")
    mock.start()
    page.wait_for("document.getElementById('link').textContent === 'Live' && document.getElementById('banner').hidden", 15)
    page.rest(2)  # the rows are fetched again
    restart_by_button(page)


def keyboard_only(page):
    for key, view in (("2", "timeline"), ("3", "tasks"), ("4", "sessions"), ("5", "events"), ("1", "overview")):
        page.key(key)
        page.wait_for(f"document.body.dataset.view === '{view}'")
    page.key("?")
    page.wait_for("document.getElementById('keys').open")
    page.key("Escape")
    page.wait_for("!document.getElementById('keys').open && document.querySelector('.area-agents a.name') !== null")
    page.run("document.querySelector('.area-agents a.name').focus()")
    page.key("Enter")
    page.wait_for("document.body.dataset.view === 'agent' && document.querySelector('h1').textContent === 'deployer'")
    page.run("history.back()")
    page.wait_for("document.body.dataset.view === 'overview'")


def nothing_from_the_address(page):
    for tail in ("#agent", "#agent/writer", "#task?id=pay-8", "?view=events#<img src=x onerror=alert(1)>", "#../../x", "#constructor", "#__proto__"):
        page.go(URL + tail, 0.8)
        assert page.run("document.body.dataset.view") == "overview", tail


def nothing_runs(page):
    page.run("window.alert = (text) => { window.ran = text; }")
    for view in ("timeline", "tasks", "sessions", "events"):
        page.go(URL + "#" + view, 1)
        assert page.run("window.ran === undefined && !document.querySelector('main img, main script')"), view
    page.go(URL + "#tasks", 1)
    assert "⟨ESC⟩" in page.run("document.querySelector('main').textContent")
    assert not page.run(r"/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/.test(document.body.textContent)")


def fits_a_phone(page):
    page.size(360, 740, phone=True)
    for view in ("overview", "timeline", "tasks", "sessions", "events"):
        page.go(URL + "#" + view, 1.2)
        wide = page.run("document.documentElement.scrollWidth")
        assert wide <= 360, f"{view} is {wide} wide"
    page.size(1280, 900)


def nothing_jumps(page):
    page.run("""window.shift = 0; new PerformanceObserver((list) => list.getEntries().forEach((e) => { if (!e.hadRecentInput) window.shift += e.value; })).observe({ type: "layout-shift", buffered: true })""")
    page.rest(4)
    moved = page.run("window.shift")
    assert moved < 0.1, f"layout shift {moved}"


def a_thousand_agents(page):
    page.go("about:blank", 0.2)
    page.go(URL, 0)
    page.wait_for("performance.getEntriesByName('relight-usable').length > 0")
    page.rest(0.5)
    usable = page.run("performance.getEntriesByName('relight-usable')[0].startTime")
    size = page.run("[...performance.getEntriesByType('resource'), ...performance.getEntriesByType('navigation')].reduce((sum, one) => sum + one.transferSize, 0)")
    print(f"      usable after {usable:.0f} ms, {size / 1000:.0f} kB")
    assert usable < 1000 and size <= 150_000


def log_in(page):
    page.go(URL, 1)
    assert "relight dashboard" in page.run("document.querySelector('main').textContent")
    assert not page.run("document.querySelector('.area-agents')")
    page.go(URL + "login/wrong", 1)
    assert "no longer works" in page.run("document.body.textContent")
    page.go(URL + "login/letmein", 1.5)
    assert page.run("location.pathname") == "/"
    page.wait_for("document.querySelector('.area-agents a.name') !== null")


def check(name, call, *arguments):
    began = time.time()
    try:
        call(*arguments)
        print(f"ok    {name} ({time.time() - began:.1f} s)", flush=True)
        return True
    except (AssertionError, TimeoutError, RuntimeError) as error:
        print(f"FAIL  {name}: {error}", flush=True)
        return False


def main():
    page, good = Browser(), True
    page.size(1280, 900)
    mock = Mock("--still")
    try:
        page.go(URL, 1.5)
        for call in (nothing_jumps, restart_by_button, cancel_changes_nothing, resolve_a_step_in_doubt):
            good &= check(call.__name__, call, page)
        good &= check("daemon_killed_and_restarted", daemon_killed_and_restarted, page, mock)
        for call in (keyboard_only, nothing_from_the_address, nothing_runs, fits_a_phone):
            good &= check(call.__name__, call, page)
        mock.kill()
        mock = Mock("--agents", "1000", "--events", "100000", "--still")
        good &= check("a_thousand_agents", a_thousand_agents, page)
        mock.kill()
        mock = Mock("--logged-out", "--still")
        good &= check("log_in", log_in, page)
        strange = [text for text in page.complaints if "ERR_CONNECTION" not in text and "401" not in text and "ERR_INCOMPLETE" not in text]
        good &= check("console_is_clean", lambda: (_ for _ in ()).throw(AssertionError(strange)) if strange else None)
    finally:
        mock.kill()
        page.close()
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
