//! A client that says every line itself.

use std::io::{BufRead, BufReader, Write as _};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::relight::{Ran, Stage, finish};

/// What is waited for comes sooner, also on a busy machine.
const LIMIT: Duration = Duration::from_secs(180);

/// Which generation of the protocol is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speaks {
    /// A handshake first.
    Handshake(&'static str),
    /// Every request says for itself what it needs.
    Alone,
}

/// A server process and the lines that go to it and come from it.
pub(crate) struct Client {
    child: Child,
    to: Option<ChildStdin>,
    from: Receiver<Value>,
    speaks: Speaks,
    id: u64,
}

impl Client {
    pub(crate) fn new(stage: &Stage, speaks: Speaks) -> Self {
        Self::with(stage, speaks, &[])
    }

    pub(crate) fn with(stage: &Stage, speaks: Speaks, variables: &[(&str, &str)]) -> Self {
        let mut command = stage.command(&["mcp"]);
        command
            .stdin(Stdio::piped())
            .envs(variables.iter().copied());
        let mut child = command.spawn().unwrap();
        let to = child.stdin.take();
        let from = lines(BufReader::new(child.stdout.take().unwrap()));
        let mut client = Self {
            child,
            to,
            from,
            speaks,
            id: 0,
        };
        if let Speaks::Handshake(version) = speaks {
            let info = json!({"name": "test", "version": "1"});
            let params =
                json!({"protocolVersion": version, "capabilities": {}, "clientInfo": info});
            let welcome = client.ask("initialize", params);
            assert_eq!(welcome["protocolVersion"], version, "{welcome}");
            client.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        }
        client
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub(crate) fn say(&mut self, message: &Value) {
        self.say_text(&message.to_string());
    }

    pub(crate) fn say_text(&mut self, line: &str) {
        writeln!(self.to.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Sends a request and does not wait; its number.
    pub(crate) fn send(&mut self, method: &str, mut params: Value) -> u64 {
        self.id += 1;
        if self.speaks == Speaks::Alone {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
        let id = self.id;
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// The next line of the server.
    pub(crate) fn next(&self) -> Value {
        self.from.recv_timeout(LIMIT).expect("the server answers")
    }

    /// Everything that still comes before the server closes its output.
    pub(crate) fn rest(&self) -> Vec<Value> {
        std::iter::from_fn(|| self.from.recv_timeout(LIMIT).ok()).collect()
    }

    /// The result of a request; what is no result is the whole answer.
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        let answer = self.next();
        assert_eq!(
            (&answer["jsonrpc"], &answer["id"]),
            (&json!("2.0"), &json!(id)),
            "{answer}"
        );
        answer.get("result").unwrap_or(&answer).clone()
    }

    /// What a tool answers; of an error, what is in it.
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let result = self.ask("tools/call", json!({"name": tool, "arguments": arguments}));
        assert!(result["content"][0]["text"].is_string(), "{result}");
        let data = &result["structuredContent"];
        let is_error = data.get("error").is_some();
        assert_eq!(result["isError"], is_error, "{result}");
        data.get("error").unwrap_or(data).clone()
    }

    /// Ends the input.
    pub(crate) fn close(&mut self) {
        drop(self.to.take());
    }

    /// Ends the input; what the process comes to.
    pub(crate) fn end(mut self) -> Ran {
        self.close();
        self.finish()
    }

    pub(crate) fn finish(self) -> Ran {
        let Self { child, to, .. } = self;
        let ran = finish(child);
        drop(to);
        ran
    }

    /// Kills it, and waits until it is dead.
    pub(crate) fn kill(mut self) {
        kill_process(self.pid(), Signal::KILL).unwrap();
        self.child.wait().unwrap();
    }
}

/// Each line as it comes; a line that is no JSON ends the test, for nothing else may stand there.
fn lines(from: impl BufRead + Send + 'static) -> Receiver<Value> {
    let (tell, told) = channel();
    std::thread::spawn(move || {
        for line in from.lines().map_while(Result::ok) {
            let value = serde_json::from_str(&line)
                .unwrap_or_else(|error| json!({"no JSON": line, "error": error.to_string()}));
            if tell.send(value).is_err() {
                return;
            }
        }
    });
    told
}
