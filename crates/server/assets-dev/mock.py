#!/usr/bin/env python3
"""A stand-in for the daemon's HTTP API, to work on the dashboard without building anything.

    ./mock.py [--port 7799] [--agents N] [--events N] [--storm N] [--empty] [--logged-out] [--read-only] [--still]
              [--draining] [--held-back]

Serves ../assets under the same Content-Security-Policy as the daemon. What it answers is made up, but
restart, stop, start, resolve, retry and cancel change it, and events stream. Log in at /login/letmein.
"""
import argparse
import http.server
import itertools
import json
import os
import random
import threading
import time
import urllib.parse
from datetime import datetime, timezone

ASSETS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "assets")
CSP = ("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
       "base-uri 'none'; form-action 'self'; frame-ancestors 'none'")
TYPES = {".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8",
         ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
CRASHES = ["failed", "signal", "oom", "hung", "timeout", "lost"]
HOSTILE = "<script>alert(1)</script> \x1b[31mred\x1b[0m \u202egnp.exe\u202c <img src=x onerror=alert(2)>"
TERMINAL = ("completed", "cancelled")


def stamp(seconds):
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


class World:
    """All state, behind one lock."""

    def __init__(self, options):
        self.lock = threading.Condition()
        self.random = random.Random(7)
        self.options = options
        self.agents, self.attempts, self.tasks, self.sessions, self.events = {}, [], {}, {}, []
        if not options.empty:
            self.fill()

    # -- making it up ------------------------------------------------------------------------------

    def fill(self):
        now = time.time()
        for row in STORY:
            self.add_agent(now, *row)
        for number in range(len(self.agents), self.options.agents):
            state = self.random.choices(["running", "crashed", "stopped", "terminated"], [94, 2, 3, 1])[0]
            self.add_agent(now, f"worker-{number:04}", state, "working" if state == "running" else None,
                           None, None, None, 3, None)
        for row in TASKS:
            self.add_task(now, *row)
        for number in range(self.options.agents // 4 if self.options.agents > 50 else 0):
            status = self.random.choice(["in_progress", "completed", "assigned", "created", "failed"])
            self.add_task(now, f"batch/{number:04}", f"Batch {number}", status, f"worker-{number:04}", 3, 8, [], None)
        for key, state, reason in SESSIONS:
            self.sessions[key] = {"key": key, "state": state, "session_id": f"s-{self.random.getrandbits(32):08x}",
                                  "generation": self.random.randint(1, 40),
                                  "owner": "gateway (pid 4242)" if state == "active" else None, "reason": reason,
                                  "since": stamp(now - self.random.randint(20, 9000)), "updated_at": stamp(now - 20)}
        self.make_events(now)

    def add_agent(self, now, name, state, phase, task, step, why, recoveries, text):
        lives = self.make_attempts(now, name, state)
        last = next((a for a in reversed(lives) if a["ended"]), None)
        self.agents[name] = {
            "name": name, "state": state, "why": why, "since": now - (lives[-1]["age"] if lives else 86400),
            "again_at": now + 45 if state == "crashed" else None, "attempt": len(lives),
            "attempt_begun_at": lives[-1]["begun"] if state == "running" and lives else None,
            "pid": 4000 + len(self.agents) * 17 if state == "running" else None, "phase": phase,
            "last_sign_at": now - self.random.randint(0, 40) if lives else None,
            "waiting_until": now + 540 if phase == "waiting" else None, "status_text": text, "task": task, "step": step,
            "session": f"sess-{name}" if phase == "working" else None,
            "recoveries_in_a_row": recoveries, "max_attempts": 3, "restarts_total": max(0, len(lives) - 1),
            "command": ["./agents/agent.sh", "--name", name], "folder": f"/srv/agents/{name}", "preset": "generic",
            "takes": "claim", "skills": ["rust", "review"] if name in ("writer", "reviewer") else [], "pool": None,
            "supervised": name != "gateway", "self_reporting": name == "gateway", "node": None,
            "last_death": death_short(last) if last else None, "updated_at": now}

    def make_attempts(self, now, name, state):
        if state == "created":
            return []
        lives, at = [], now - self.random.randint(2, 7) * 86400
        busy = name in ("indexer", "surveyor", "tester")
        while at < now - 120 and len(lives) < 60:
            lived = self.random.expovariate(1 / (9000 if busy else 40000)) + 30
            if self.options.agents > 50:
                lived = self.random.expovariate(1 / 200000) + 30
            end = at + lived
            if end > now - 60:
                break
            cause = self.random.choices(CRASHES + ["stopped", "completed", "deferred"], [5, 6, 1, 3, 1, 1, 2, 3, 2])[0]
            lives.append(self.attempt(name, len(lives) + 1, at, end, cause))
            at = end + {"stopped": 1800, "completed": 300, "deferred": 900}.get(cause, 0.4 + self.random.expovariate(0.3))
        if state == "running":
            lives.append(self.attempt(name, len(lives) + 1, min(at, now - 5), None, None))
        else:
            cause, ago = {"crashed": ("signal", 15), "terminated": ("oom", 2400), "suspended": ("deferred", 900), "stopped": ("stopped", 5000)}[state]
            lives.append(self.attempt(name, len(lives) + 1, min(at, now - ago - 60), now - ago, cause))
        for life in lives:
            life["age"] = now - (life["ended"] or life["begun"])
        self.attempts += lives
        return lives

    def attempt(self, agent, number, begun, ended, cause):
        return {"agent": agent, "number": number, "begun": begun, "ended": ended, "cause": cause,
                "code": {"failed": 1, "completed": 0}.get(cause), "signal": {"signal": 9, "oom": 9}.get(cause)}

    def add_task(self, now, key, title, status, agent, done, declared, in_doubt, reason):
        names = ["fetch", "read", "pay", "tell", "check"] if key == "pay-8" else ["fetch", "read", "plan", "write", "check", "push", "tell", "tidy"][:declared]
        steps = [self.step(n, "done", now - 600 + 20 * i) for i, n in enumerate(names[:done])]
        steps += [self.step(n, "begun", now - 200, rule="once") for n in in_doubt]
        held = status == "in_progress"
        self.tasks[key] = {
            "id": key, "title": title, "status": status, "reason": reason, "agent": agent,
            "holder": {"kind": "attempt", "text": f"{agent} attempt 3", "since": stamp(now - 600), "left_ms": None} if held else None,
            "fence": 3, "declared": names, "steps": steps, "starts": 2, "retries": 0, "max_retries": 1, "recoveries": 1,
            "given_up": status == "failed", "cost": "0.25", "turns": 14, "strategy": "resume", "priority": 0, "needs": [],
            "not_before": None, "expires_at": None, "created_at": stamp(now - 7200), "updated_at": stamp(now - 30),
            "context": {"branch": f"relight/{key.split('/')[-1]}", "issue": "412"}, "payload": {"title": title}}

    def step(self, name, state, at, rule="keyed"):
        return {"name": name, "occurrence": 1, "state": state, "rule": rule, "tries": 1, "at": stamp(at),
                "exit_code": 0 if state == "done" else None}

    def make_events(self, now):
        wanted = self.options.events
        for life in self.attempts:
            self.past(life["begun"], "attempt.begun", agent=life["agent"], number=life["number"])
            if life["ended"]:
                self.past(life["ended"], "attempt.died", agent=life["agent"], number=life["number"], cause=life["cause"],
                          how={"signal": life["signal"]} if life["signal"] else {"code": life["code"]})
        self.past(now - 200, "alert", agent="surveyor", why="recovered 3 times in a row without progress")
        self.past(now - 190, "task.status", task="pay-8", **{"from": "in_progress", "to": "blocked", "reason": HOSTILE})
        tasks = sorted(self.tasks)
        while len(self.events) < wanted:
            self.past(now - self.random.random() * 86400, self.random.choice(["step.begun", "step.done"]),
                      task=self.random.choice(tasks), step={"name": "write", "occurrence": 1})
        self.events.sort(key=lambda e: e["at"])
        for number, event in enumerate(self.events):
            event["id"] = number + 1

    def past(self, at, kind, agent=None, task=None, step=None, **detail):
        self.events.append({"id": 0, "at": stamp(at), "kind": kind, "agent": agent, "task": task, "step": step,
                            "fence": 3 if task else None, "detail": detail or None})

    # -- what happens ------------------------------------------------------------------------------

    def tell(self, kind, agent=None, task=None, step=None, **detail):
        with self.lock:
            self.past(time.time(), kind, agent, task, step, **detail)
            self.events[-1]["id"] = len(self.events)
            self.lock.notify_all()

    def tick(self):
        while True:
            time.sleep(1)
            now = time.time()
            running = [a for a in self.agents.values() if a["state"] == "running"]
            for agent in running:
                if self.random.random() < 0.4:
                    agent["last_sign_at"] = now
            if self.options.still:
                continue
            self.work(running)
            for agent in list(self.agents.values()):
                if agent["state"] == "crashed" and agent["again_at"] and agent["again_at"] < now:
                    self.begin(agent)
            if running and self.random.random() < 0.04:
                victim = self.random.choice(running)
                self.die(victim, self.random.choice(CRASHES))
                threading.Timer(0.4 + self.random.random() * 2, self.begin, [victim]).start()

    def storm(self):
        """So many steps a second as were asked for."""
        tasks = sorted(self.tasks)
        while self.options.storm:
            time.sleep(0.1)
            for _ in range(self.options.storm // 10):
                self.tell("step.done", task=self.random.choice(tasks), step={"name": "write", "occurrence": 1}, exit_code=0)

    def work(self, running):
        for agent in running:
            task = self.tasks.get(agent["task"])
            if not task or self.random.random() > 0.3:
                continue
            left = [n for n in task["declared"] if n not in [s["name"] for s in task["steps"]]]
            if not left:
                task["steps"] = []
                continue
            task["steps"].append(self.step(left[0], "done", time.time()))
            task["updated_at"] = stamp(time.time())
            agent["step"] = left[1] if len(left) > 1 else None
            self.tell("step.done", task=task["id"], step={"name": left[0], "occurrence": 1}, exit_code=0)

    def die(self, agent, cause):
        life = next((a for a in reversed(self.attempts) if a["agent"] == agent["name"] and not a["ended"]), None)
        now = time.time()
        if life:
            life.update(ended=now, cause=cause, code=1 if cause == "failed" else None,
                        signal=9 if cause in ("signal", "oom") else None)
            agent["last_death"] = death_short(life)
            self.tell("attempt.died", agent["name"], number=life["number"], cause=cause, lived_ms=int((now - life["begun"]) * 1000))
        self.state(agent, "crashed", why=cause, again_at=now + 3)

    def begin(self, agent):
        if agent["state"] == "running":
            return
        agent["attempt"] += 1
        now = time.time()
        self.attempts.append(self.attempt(agent["name"], agent["attempt"], now, None, None))
        agent.update(attempt_begun_at=now, pid=9000 + agent["attempt"], phase="waiting" if agent["waiting_until"] else "working", last_sign_at=now,
                     restarts_total=agent["restarts_total"] + 1)
        self.tell("attempt.begun", agent["name"], number=agent["attempt"])
        self.state(agent, "running")

    def state(self, agent, to, why=None, again_at=None):
        before = agent["state"]
        agent.update(state=to, why=why, again_at=again_at, since=time.time())
        if to != "running":
            agent.update(pid=None, phase=None, attempt_begun_at=None)
        self.tell("agent.state", agent["name"], **{"from": before, "to": to, "why": why})

    def command(self, name, verb):
        agent = self.agents[name]
        before = agent["state"]
        if before == "running":
            self.die(agent, "stopped")
        if verb == "stop":
            self.state(agent, "stopped", why="stopped by a person")
        else:
            self.state(agent, "created")
            threading.Timer(0.8, self.begin, [agent]).start()
        return {"agent": name, "previous_state": before, "state": agent["state"], "task_interrupted": agent["task"], "task_cancelled": None}

    def move(self, task, to, reason=None):
        before = task["status"]
        task.update(status=to, reason=reason, holder=None, fence=task["fence"] + 1, updated_at=stamp(time.time()))
        self.tell("task.status", task=task["id"], **{"from": before, "to": to, "reason": reason})

    # -- answers -----------------------------------------------------------------------------------

    def agent_view(self, agent):
        times = ("since", "again_at", "attempt_begun_at", "last_sign_at", "waiting_until", "updated_at")
        return {k: stamp(v) if k in times else v for k, v in agent.items()}

    def task_view(self, task, whole=False):
        done = [s["name"] for s in task["steps"] if s["state"] == "done"]
        doubt = [s["name"] for s in task["steps"] if s["state"] == "begun"]
        left = [n for n in task["declared"] if n not in done]
        view = {k: v for k, v in task.items() if k not in ("steps", "declared", "context", "payload")}
        view.update(steps_done=len(done), steps_in_doubt=len(doubt), steps_declared=len(task["declared"]),
                    steps_declared_done=len([name for name in task["declared"] if name in done]))
        if whole:
            view.update(steps=task["steps"], done_steps=done, in_doubt=doubt, next_step=(doubt + left + [None])[0],
                        remaining_steps=left, context=task["context"], payload=task["payload"])
        return view

    def deaths(self, name):
        lives = [a for a in self.attempts if a["agent"] == name and a["ended"]]
        out = ["reading src/store/mod.rs", "planning the change", HOSTILE, "error: out of tokens", "giving up"]
        return [{"agent": name, "number": a["number"], "begun_at": stamp(a["begun"]), "ended_at": stamp(a["ended"]),
                 "lived_ms": int((a["ended"] - a["begun"]) * 1000), "cause": a["cause"], "code": a["code"], "signal": a["signal"],
                 "note": "killed from outside" if a["cause"] == "signal" else None, "last_step": "write",
                 "memory_max_kib": 482000, "post_mortem": {"output": out, "done_steps": ["fetch", "read", "plan"],
                                                           "in_doubt": ["write"], "next_step": "write"}}
                for a in sorted(lives, key=lambda a: -a["number"])]

    def stats(self, hours):
        now = time.time()
        first = int(now // 3600 - hours + 1)
        deaths = {h: {} for h in range(first, first + hours)}
        back, took = {h: 0 for h in deaths}, []
        lives = sorted(self.attempts, key=lambda a: (a["agent"], a["number"]))
        for life, after in zip(lives, lives[1:] + [None]):
            hour = int((life["ended"] or 0) // 3600)
            if hour not in deaths:
                continue
            deaths[hour][life["cause"]] = deaths[hour].get(life["cause"], 0) + 1
            if after and after["agent"] == life["agent"] and life["cause"] in CRASHES:
                back[hour] += 1
                took.append((after["begun"] - life["ended"]) * 1000)
        took.sort()
        steps = {m: self.random.randint(4, 30) for m in range(int(now // 60) - 59, int(now // 60) + 1)} if self.agents else {}
        return {"now": stamp(now), "version": "0.1.0", "node": None, "draining": self.options.draining, "held_back": self.options.held_back,
                "agents": tally(a["state"] for a in self.agents.values()), "tasks": tally(t["status"] for t in self.tasks.values()),
                "sessions": tally(s["state"] for s in self.sessions.values()),
                "in_doubt": sum(self.task_view(t)["steps_in_doubt"] for t in self.tasks.values() if not t["holder"]),
                "deaths_per_hour": [{"hour": stamp(h * 3600), "causes": c} for h, c in deaths.items()],
                "recoveries_per_hour": [{"hour": stamp(h * 3600), "count": c} for h, c in back.items()],
                "time_to_recover_ms": {"p50": took[len(took) // 2] if took else None,
                                       "p99": took[len(took) * 99 // 100] if took else None, "count": len(took)},
                "steps_per_minute": [{"minute": stamp(m * 60), "count": c} for m, c in steps.items()],
                "needs_me": self.needs_me(), "needs_me_total": len(self.needs_me())}

    def needs_me(self):
        out = []
        for task in self.tasks.values():
            view = self.task_view(task, whole=True)
            if view["in_doubt"] and task["status"] == "blocked":
                out.append(need("in_doubt", "task/" + task["id"], f"step {view['in_doubt'][0]} may or may not have happened",
                                f"relight task show {task['id']}, then relight step resolve", task["updated_at"]))
            elif task["status"] == "blocked":
                out.append(need("blocked", "task/" + task["id"], task["reason"], f"relight task show {task['id']}", task["updated_at"]))
            elif task["status"] == "failed" and task["given_up"]:
                out.append(need("given_up", "task/" + task["id"], task["reason"] or "retries used up",
                                f"relight task retry {task['id']} --force, or relight task cancel {task['id']}", task["updated_at"]))
        for agent in self.agents.values():
            if agent["state"] == "terminated":
                out.append(need("terminated", "agent/" + agent["name"], agent["why"] or "recovered 3 times in a row without progress",
                                f"relight deaths {agent['name']}, then relight start {agent['name']}", stamp(agent["since"])))
        for session in self.sessions.values():
            if session["state"] == "suspended":
                out.append(need("suspended", "session/" + session["key"], session["reason"],
                                f"relight session resume {session['key']}", session["updated_at"]))
        return out[:100]


def need(kind, subject, text, hint, at):
    return {"kind": kind, "subject": subject, "text": text, "hint": hint, "at": at}


def tally(words):
    out = {}
    for word in words:
        out[word] = out.get(word, 0) + 1
    return out


def death_short(life):
    return {"number": life["number"], "cause": life["cause"], "at": stamp(life["ended"]), "code": life["code"], "signal": life["signal"]}


# name, state, phase, task, step, why, recoveries in a row, status text
STORY = [
    ("deployer", "suspended", None, "pay-8", None, "its task pay-8 is blocked", 0, None),
    ("gateway", "running", "working", None, None, None, 0, "41 conversations open"),
    ("indexer", "crashed", None, "index-docs", "write", "signal 9", 2, None),
    ("newcomer", "created", None, None, None, None, 0, None),
    ("nightly", "stopped", None, None, None, "stopped by a person", 0, None),
    ("researcher", "suspended", None, "survey-2026", "read", "said later (exit 75)", 0, None),
    ("reviewer", "running", "waiting", "review/412", "check", None, 0, "waiting for the model's limit to reset"),
    ("surveyor", "terminated", None, "survey-old", "plan", "recovered 3 times in a row without progress", 3, None),
    ("tester", "running", "working", "fix-flaky-test", "check", None, 1, "cargo test --workspace"),
    ("translator", "running", "working", "translate/de", "write", None, 0, HOSTILE),
    ("triage", "running", "starting", None, None, None, 0, None),
    ("writer", "running", "working", "book/chapter-07", "write", None, 0, "writing section 3 of 9"),
]
# id, title, status, agent, steps done, declared, in doubt, reason
TASKS = [
    ("book/chapter-07", "Write chapter 7", "in_progress", "writer", 3, 8, [], None),
    ("fix-flaky-test", "Find out why resume_test is flaky", "in_progress", "tester", 4, 6, ["check"], None),
    ("index-docs", "Index the documentation", "interrupted", "indexer", 3, 5, ["write"], "its holder died: signal 9"),
    ("mail-digest", "Send the weekly digest", "completed", "writer", 4, 4, [], None),
    ("pay-8", "Pay invoice 8", "blocked", "deployer", 2, 5, ["pay"], "step pay is in doubt and must not be repeated"),
    ("plan-q3", "", "created", None, 0, 3, [], None),
    ("release/0.9", "Release 0.9", "in_review", "reviewer", 6, 6, [], None),
    ("review/412", "Review pull request 412", "in_progress", "reviewer", 4, 7, [], None),
    ("scrape-prices", "Collect prices", "failed", "nightly", 1, 4, [], "exit 1 after 2 starts; retries used up"),
    ("survey-2026", "Survey of agent frameworks", "deferred", "researcher", 1, 6, [], "later: rate limit"),
    ("survey-old", "Survey of last year", "suspended", "surveyor", 2, 6, [], "recovery used up"),
    ("translate/de", HOSTILE, "in_progress", "translator", 3, 8, [], None),
    ("wait-for-review", "Wait for a person", "blocked", "writer", 2, 5, [], "needs a decision on the cover"),
    ("old-idea", "An idea that was dropped", "cancelled", None, 0, 2, [], "no longer wanted"),
]
SESSIONS = [("slack:C042/alice", "active", None), ("slack:C042/bob", "idle", None), ("mail/inbox", "resume_pending", "cut off: gateway died"),
            ("web:9f2c", "suspended", "cut off by three deaths of its owner in a row"), ("web:77aa", "expired", "not taken up within 1h")]


class Door(http.server.BaseHTTPRequestHandler):
    """Routes of the API and the files of the dashboard."""
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.split()
        if self.parts[:1] != ["api"]:
            return self.file()
        if self.parts == ["api", "health"]:
            return self.send({"status": "ok", "version": "0.1.0"})
        if not self.logged_in():
            return self.refuse(401, "unauthorized", "not logged in", "relight dashboard")
        if self.parts == ["api", "events"] and "text/event-stream" in self.headers.get("Accept", ""):
            return self.stream()
        with world.lock:
            answer = self.read()
        return self.send(answer) if answer is not None else self.refuse(404, "not_found", "there is no such thing", None)

    def do_POST(self):
        self.split()
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        if self.parts == ["api", "login"]:
            if body.get("code") != "letmein":
                return self.refuse(401, "unauthorized", "this login link was used or is too old", "relight dashboard")
            return self.send({"scope": "admin", "csrf": "mock"}, cookie=True)
        if not self.logged_in():
            return self.refuse(401, "unauthorized", "not logged in", "relight dashboard")
        if self.headers.get("X-Relight-Csrf") != "mock" or options.read_only:
            return self.refuse(403, "forbidden", "this login may only read", None)
        with world.lock:
            answer = self.write(body)
        return self.send(answer) if answer is not None else self.refuse(409, "illegal", "not possible now", None)

    def split(self):
        url = urllib.parse.urlsplit(self.path)
        self.parts = [urllib.parse.unquote(p) for p in url.path.split("/") if p]
        self.query = {k: v[-1] for k, v in urllib.parse.parse_qs(url.query).items()}

    def logged_in(self):
        return not options.logged_out or "relight=in" in self.headers.get("Cookie", "")

    def read(self):
        match self.parts[1:]:
            case ["me"]:
                return {"via": "cookie", "scope": "read" if options.read_only else "admin", "csrf": "mock"}
            case ["stats"]:
                return world.stats(int(self.query.get("hours", 24)))
            case ["agents"]:
                rows = [a for n, a in sorted(world.agents.items()) if self.query.get("state") in (None, a["state"])]
                return self.page(rows, lambda a: a["name"], world.agent_view)
            case ["agents", name] if name in world.agents:
                return world.agent_view(world.agents[name])
            case ["agents", name, "deaths"] if name in world.agents:
                return self.page(world.deaths(name), lambda d: str(d["number"]), dict)
            case ["agents", name, "logs"] if name in world.agents:
                return {"agent": name, "lines": [f"[{i:03}] {name}: looked at file {i}" for i in range(120)] + [HOSTILE], "truncated": True}
            case ["attempts"]:
                since, agent = self.query.get("since", ""), self.query.get("agent")
                rows = [a for a in world.attempts if (not a["ended"] or stamp(a["ended"]) >= since) and agent in (None, a["agent"])]
                rows.sort(key=lambda a: -a["begun"])
                return {"items": [attempt_view(a) for a in rows[:int(self.query.get("limit", 1000))]], "next": None}
            case ["tasks"]:
                rows = [world.task_view(t) for t in world.tasks.values()]
                keep = lambda t: (self.query.get("status") in (None, t["status"]) and self.query.get("agent") in (None, t["agent"])
                                  and (not self.query.get("in_doubt") or t["steps_in_doubt"]))
                return self.page([t for t in rows if keep(t)], lambda t: t["id"], dict)
            case ["tasks", key] if key in world.tasks:
                return world.task_view(world.tasks[key], whole=True)
            case ["sessions"]:
                rows = [s for s in world.sessions.values() if self.query.get("state") in (None, s["state"])]
                return self.page(rows, lambda s: s["key"], dict)
            case ["events"]:
                return self.events_page()
        return None

    def events_page(self):
        newest, after = self.query.get("newest") == "true", int(self.query.get("after") or 0)
        limit = int(self.query.get("limit", 100))
        before = int(self.query.get("before") or len(world.events) + 1)
        newest = newest or "before" in self.query
        rows = reversed(world.events[:before - 1]) if newest else world.events[after:]
        wanted = {k: self.query[k].split(",") for k in ("kind", "agent", "task") if k in self.query}
        found = list(itertools.islice((e for e in rows if all(e[k] in v for k, v in wanted.items())), limit))
        if newest:
            return {"items": found[::-1], "next": None}
        return {"items": found, "next": str(found[-1]["id"]) if len(found) == limit else None}

    def page(self, rows, key, view):
        limit, after = int(self.query.get("limit", 100)), self.query.get("after")
        start = next((i + 1 for i, r in enumerate(rows) if key(r) == after), 0) if after else 0
        part = rows[start:start + limit]
        return {"items": [view(r) for r in part], "next": key(part[-1]) if start + limit < len(rows) else None}

    def write(self, body):
        match self.parts[1:]:
            case ["logout"]:
                return {}
            case ["agents", name, ("restart" | "start" | "stop") as verb] if name in world.agents:
                return world.command(name, verb)
            case ["tasks", key, "cancel"] if key in world.tasks and world.tasks[key]["status"] not in TERMINAL:
                world.move(world.tasks[key], "cancelled", "by a person")
                return world.task_view(world.tasks[key])
            case ["tasks", key, ("retry" | "release")] if key in world.tasks and world.tasks[key]["status"] not in TERMINAL:
                world.tasks[key]["given_up"] = False
                world.move(world.tasks[key], "assigned")
                return world.task_view(world.tasks[key])
            case ["tasks", key, "steps", name, "resolve"] if key in world.tasks:
                task = world.tasks[key]
                for step in [s for s in task["steps"] if s["name"] == name]:
                    step.update(state="done" if body["happened"] else "failed", exit_code=None)
                world.tell("step.resolved", task=key, step={"name": name, "occurrence": 1}, happened=body["happened"])
                world.move(task, "assigned")
                return world.task_view(task)
            case ["sessions", key, verb] if key in world.sessions:
                world.sessions[key].update(state="resume_pending" if verb == "resume" else "suspended", reason="by a person")
                world.tell("session.state", **{"session": key, "to": world.sessions[key]["state"]})
                return world.sessions[key]
        return None

    def stream(self):
        after = int(self.headers.get("Last-Event-ID") or self.query.get("after") or len(world.events))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.close_connection = True
        try:
            while True:
                with world.lock:
                    if len(world.events) <= after:
                        world.lock.wait(5)
                    fresh = world.events[after:after + 500]
                for event in fresh:
                    self.wfile.write(f"id: {event['id']}\nevent: {event['kind']}\ndata: {json.dumps(event)}\n\n".encode())
                    after = event["id"]
                self.wfile.write(b": still here\n\n")
                self.wfile.flush()
        except OSError:
            pass

    def file(self):
        name = {(): "index.html", ("login",): "login.html"}.get(tuple(self.parts[:1]))
        if name is None and self.parts[0] == "assets":
            name = "/".join(self.parts[1:])
        path = os.path.normpath(os.path.join(ASSETS, name or "-"))
        if not path.startswith(os.path.normpath(ASSETS)) or not os.path.isfile(path):
            return self.refuse(404, "not_found", "there is no such file", None)
        with open(path, "rb") as source:
            return self.bytes(200, TYPES.get(os.path.splitext(path)[1], "text/plain"), source.read())

    def send(self, value, status=200, cookie=False):
        self.bytes(status, "application/json", json.dumps(value, separators=(",", ":")).encode(), cookie)

    def refuse(self, status, code, message, hint):
        self.send({"error": {"code": code, "message": message, "hint": hint}}, status)

    def bytes(self, status, kind, body, cookie=False):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", CSP)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        if cookie:
            self.send_header("Set-Cookie", "relight=in; HttpOnly; SameSite=Strict; Path=/")
        self.end_headers()
        self.wfile.write(body)


def attempt_view(life):
    end = life["ended"] or time.time()
    return {"agent": life["agent"], "number": life["number"], "begun_at": stamp(life["begun"]), "ended_at": stamp(life["ended"]),
            "cause": life["cause"], "lived_ms": int((end - life["begun"]) * 1000)}


def read_options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=7799)
    parser.add_argument("--agents", type=int, default=12)
    parser.add_argument("--events", type=int, default=400)
    parser.add_argument("--storm", type=int, default=0, help="events a second")
    for flag in ("--empty", "--logged-out", "--read-only", "--still", "--draining", "--held-back"):
        parser.add_argument(flag, action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    options = read_options()
    world = World(options)
    threading.Thread(target=world.tick, daemon=True).start()
    threading.Thread(target=world.storm, daemon=True).start()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", options.port), Door)
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # a browser that goes away is no news
    print(f"http://127.0.0.1:{options.port}/", flush=True)
    server.serve_forever()
