"""A real MCP client drives a whole task through a crash of its server.

client.py RELIGHT stdio|http legacy|auto

Needs the package `mcp`. The state is in $RELIGHT_HOME. Ends with 0 and the word "held" when all of it
was as it should be.
"""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

RELIGHT, WAY, MODE = sys.argv[1:4]
LIMIT = 30
TOOLS = {
    "task_start", "task_done", "task_block", "step_begin", "step_end", "step_skip",
    "checkpoint_save", "checkpoint_resume", "heartbeat", "inflight", "resume_brief",
}


def relight(*words):
    """What a person types."""
    done = subprocess.run(
        [RELIGHT, *words, "--json"], capture_output=True, text=True, timeout=LIMIT, check=False
    )
    assert done.returncode == 0, (words, done)
    return json.loads(done.stdout)


def expect(found, **wanted):
    for key, value in wanted.items():
        assert found.get(key) == value, f"{key} is {found.get(key)!r}, not {value!r}, in {found}"


class Agent:
    """Calls tools, and over HTTP gives what nobody remembers there."""

    def __init__(self, client):
        self.client, self.known = client, {}

    async def call(self, tool, **given):
        takes_them = tool in {"step_begin", "step_end", "task_done", "task_block"}
        given = {**(self.known if takes_them else {}), **given}
        result = await self.client.call_tool(tool, given, read_timeout_seconds=LIMIT)
        assert result.content and result.content[0].text, result
        found = result.structured_content or {"text": result.content[0].text}
        if tool == "task_start" and not result.is_error and WAY == "http":
            self.known = {"task": found["task"], "fence": found["fence"]}
        return found.get("error", found) if result.is_error else found


class Stdio:
    """`relight mcp`, a new process for each client."""

    def target(self):
        passed = {key: os.environ[key] for key in ("RELIGHT_HOME", "PATH", "HOME")}
        return StdioServerParameters(command=RELIGHT, args=["mcp", "--agent", "writer"], env=passed)

    def kill(self):
        holder = relight("inflight")["held"][0]["holder"]
        os.kill(int(holder.removeprefix("process ")), signal.SIGKILL)

    def end(self):
        pass


class Http:
    """`relight up`; a new one takes the place of one that was killed."""

    def __init__(self):
        with open("relight.toml", "w") as file:
            file.write('[daemon]\nlisten = "127.0.0.1:0"\n')
        self.start()

    def start(self):
        self.daemon = subprocess.Popen(
            [RELIGHT, "up"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        # It says where it listens once it does.
        for line in self.daemon.stdout:
            if b"http://127.0.0.1:" in line:
                break
        link = relight("dashboard", "--print")["url"]
        self.url = "/".join(link.split("/")[:3]) + "/mcp"
        self.token = relight("token", "show")["token"]

    def target(self):
        headers = {"Authorization": f"Bearer {self.token}", "Relight-Agent": "writer"}
        return streamable_http_client(self.url, http_client=httpx2.AsyncClient(headers=headers))

    def kill(self):
        self.daemon.kill()
        self.daemon.wait(LIMIT)
        self.start()

    def end(self):
        self.daemon.terminate()
        self.daemon.wait(LIMIT)


@contextlib.asynccontextmanager
async def client_of(server):
    async with Client(server.target(), mode=MODE, read_timeout_seconds=LIMIT) as client:
        yield client


async def look_around(agent):
    client = agent.client
    modern = client.protocol_version >= "2026-07-28"
    assert modern == (MODE == "auto"), client.protocol_version
    assert "step_begin" in client.instructions, client.instructions
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert set(tools) == TOOLS, sorted(tools)
    for tool in tools.values():
        assert tool.title and tool.description and tool.annotations, tool
        reads = tool.name in {"inflight", "resume_brief"}
        assert tool.annotations.read_only_hint == reads, tool
    resources = (await client.list_resources()).resources
    assert [str(resource.uri) for resource in resources] == ["relight://brief"], resources


async def first_life(server):
    async with client_of(server) as client:
        agent = Agent(client)
        await look_around(agent)
        started = await agent.call("task_start", task="t", steps=["build", "publish"], title="Ship")
        expect(started, resumed=False, next_step="build", in_doubt=[])
        begun = await agent.call("step_begin", step="build")
        expect(begun, advice="go")
        expect(await agent.call("step_end", step="build", output="built"), next_step="publish")
        expect(await agent.call("step_begin", step="build"), advice="finished", output="built")
        sent = await agent.call("step_begin", step="publish")
        expect(sent, advice="go")
        expect(await agent.call("step_begin", step="pay", rule="once"), advice="go")
        missing = await agent.call("step_end", step="never")
        expect(missing, code="conflict", hint="call step_begin first")
        server.kill()
        return agent.known, sent["idempotency_key"]


async def second_life(server, known, key):
    async with client_of(server) as client:
        agent = Agent(client)
        agent.known = known
        # Over HTTP the same agent goes on with its fence; a process that died has lost it.
        again = await agent.call("task_start", task="t", **({"fence": known["fence"]} if known else {}))
        expect(again, resumed=True, done_steps=["build"], next_step="publish")
        assert set(again["in_doubt"]) == {"publish", "pay"}, again
        brief = (await agent.call("resume_brief", task="t"))["text"]
        assert "publish" in brief and "build" in brief, brief
        resource = (await client.read_resource("relight://brief/t")).contents[0].text
        assert resource == brief, (resource, brief)
        doubt = await agent.call("step_begin", step="publish")
        expect(doubt, advice="again", idempotency_key=key)
        await agent.call("step_end", step="publish")
        expect(await agent.call("step_begin", step="pay", rule="once"), advice="wait")
        expect(relight("task", "show", "t"), status="blocked")
        relight("step", "resolve", "pay", "--task", "t", "--happened")
        expect(await agent.call("task_start", task="t"), resumed=True, in_doubt=[])
        expect(await agent.call("step_begin", step="pay"), advice="finished")
        expect(await agent.call("task_done"), status="completed")
        expect(await agent.call("task_start", task="t"), code="ended")


async def main():
    server = Stdio() if WAY == "stdio" else Http()
    try:
        known, key = await first_life(server)
        await second_life(server, known, key)
    finally:
        server.end()
    print("held")


# Shorter than whoever started this waits: what was started here is ended here.
asyncio.run(asyncio.wait_for(main(), 50))
