#!/usr/bin/env python3
"""Takes the pictures of docs/guides/dashboard.md from the mock: ./shots.py [FOLDER]."""
import os
import sys

from browser import Browser
from check import HERE, PORT, URL, Mock

FOLDER = sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "../../../docs/guides/images")
FIRST_NEED = "document.querySelector('.needs a').click()"
INDEXER = "[...document.querySelectorAll('.area-agents a.name')].find(a => a.textContent === 'indexer').click()"
OPEN_DEATH = "document.querySelector('.deaths summary').click()"
RESTART = "document.querySelectorAll('.verb-restart')[4].click()"
# name, view, width, height, dark, scripts
SHOTS = [
    ("dashboard-overview", "overview", 1280, 1180, False, []),
    ("dashboard-dark", "overview", 1280, 900, True, [RESTART]),
    ("dashboard-timeline", "timeline", 1280, 620, False, []),
    ("dashboard-task", "overview", 1280, 640, False, [FIRST_NEED]),
    ("dashboard-agent", "overview", 1280, 860, True, [INDEXER, OPEN_DEATH]),
    ("dashboard-phone", "overview", 360, 740, False, ["document.querySelector('.area-agents').scrollIntoView(); scrollBy(0, -60)"]),
]


def main():
    os.makedirs(FOLDER, exist_ok=True)
    page, mock = Browser(), Mock("--still")
    for name, view, width, height, dark, scripts in SHOTS:
        page.size(width, height, dark, phone=width < 500)
        page.go("about:blank", 0.1)
        page.go(URL + "#" + view, 2)
        for script in scripts:
            page.run(script)
            page.rest(1)
        page.shot(os.path.join(FOLDER, name + ".png"))
    page.size(1280, 420)
    page.go(URL, 2)
    mock.kill()
    page.rest(2.5)
    page.shot(os.path.join(FOLDER, "dashboard-disconnected.png"))
    page.close()
    print(f"pictures are in {os.path.normpath(FOLDER)} (port {PORT} was used)")


if __name__ == "__main__":
    main()
