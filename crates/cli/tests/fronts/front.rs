//! One request of an operation, said through each front.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::client::{Client, Speaks};
use crate::ground::{Ground, Supervisor};
use crate::library::Library;
use crate::package::{self, Package};

/// An answer, or the error.
pub(crate) type Answer = Result<Value, Value>;

/// A way to reach Relight, with a home of its own.
pub(crate) enum Front {
    Cli(Ground),
    Http(
        Ground,
        #[expect(dead_code, reason = "it runs while this lives")] Supervisor,
    ),
    /// `POST /api/operations/{name}`.
    ByName(
        Ground,
        #[expect(dead_code, reason = "it runs while this lives")] Supervisor,
    ),
    Mcp(Ground, Client),
    /// `POST /mcp`.
    McpHttp(
        Ground,
        #[expect(dead_code, reason = "it runs while this lives")] Supervisor,
    ),
    Library(Ground, Box<Library>),
    /// The client that packages of other languages are built on.
    Sdk(Ground, relight_sdk::Client),
    /// The package of another language.
    Package(Ground, Box<Package>),
}

impl Front {
    /// The library comes last, for it has verbs of its own.
    pub(crate) fn all() -> Vec<Self> {
        let (daemon, up) = daemon();
        let embedded = Ground::new();
        let library = Library::open(&embedded.home("relight.db"));
        let [cli, mcp, mcp_http] = Self::at_hand();
        let mut all = vec![cli, Self::Http(daemon, up), mcp, mcp_http];
        all.extend(Self::embedded());
        all.push(Self::Library(embedded, Box::new(library)));
        all
    }

    /// Those that serve the checkpoint verbs.
    pub(crate) fn with_files() -> Vec<Self> {
        let mut all = Vec::from(Self::at_hand());
        all.push(Self::by_name());
        all.extend(Self::embedded());
        all
    }

    /// Those that serve every operation of the table.
    pub(crate) fn of_the_table() -> Vec<Self> {
        let mut all = vec![Self::by_name()];
        all.extend(Self::embedded());
        all
    }

    fn at_hand() -> [Self; 3] {
        let tools = Ground::new();
        let client = Client::new(&tools.stage, Speaks::Alone);
        let (ground, up) = daemon();
        [
            Self::Cli(Ground::new()),
            Self::Mcp(tools, client),
            Self::McpHttp(ground, up),
        ]
    }

    pub(crate) fn by_name() -> Self {
        let (ground, up) = daemon();
        Self::ByName(ground, up)
    }

    /// The client that packages share, and the packages that are installed.
    fn embedded() -> Vec<Self> {
        let ground = Ground::new();
        let client = package::open(&ground, None);
        let mut all = vec![Self::Sdk(ground, client)];
        for name in Package::NAMES {
            let ground = Ground::new();
            if let Some(package) = Package::start(name, &ground, None) {
                all.push(Self::Package(ground, Box::new(package)));
            }
        }
        all
    }

    /// Whether a model reads what it says.
    pub(crate) fn is_for_models(&self) -> bool {
        matches!(self, Self::Mcp(..) | Self::McpHttp(..))
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Cli(_) => "cli",
            Self::Http(..) => "http",
            Self::ByName(..) => "operations",
            Self::Mcp(..) => "mcp",
            Self::McpHttp(..) => "mcp_http",
            Self::Library(..) => "library",
            Self::Sdk(..) => "sdk",
            Self::Package(_, package) => package.name,
        }
    }

    pub(crate) fn ground(&self) -> &Ground {
        match self {
            Self::Cli(ground)
            | Self::Http(ground, _)
            | Self::ByName(ground, _)
            | Self::Mcp(ground, _)
            | Self::McpHttp(ground, _)
            | Self::Library(ground, _)
            | Self::Sdk(ground, _)
            | Self::Package(ground, _) => ground,
        }
    }

    /// Calls an operation such as `task.start`; none where this front does not serve it.
    pub(crate) fn call(&mut self, operation: &str, fields: &Value) -> Option<Answer> {
        match self {
            Self::Cli(_) if operation.starts_with("record.") => None,
            Self::Cli(ground) => Some(by_command(ground, operation, fields)),
            Self::Http(ground, _) => by_request(ground, operation, fields),
            Self::ByName(ground, _) => Some(by_operation(
                ground,
                "",
                operation,
                &with_dir(ground, operation, fields),
            )),
            Self::Mcp(_, client) => {
                by_tool(operation, fields, |tool, fields| client.call(tool, fields))
            }
            Self::McpHttp(ground, _) => by_tool(operation, fields, |tool, fields| {
                post_tool(ground, tool, fields)
            }),
            Self::Library(_, library) => library.call(operation, fields),
            Self::Sdk(ground, client) => {
                let fields = with_dir(ground, operation, fields);
                Some(package::call(client, operation, &fields))
            }
            Self::Package(ground, package) => {
                Some(package.call(operation, &with_dir(ground, operation, fields)))
            }
        }
    }

    /// The same by an agent, which every front but the library says in its own way: a program that embeds
    /// Relight writes by the handles that it holds.
    pub(crate) fn call_as(
        &mut self,
        agent: &str,
        operation: &str,
        fields: &Value,
    ) -> Option<Answer> {
        match self {
            Self::Cli(ground) => Some(by_command_as(ground, agent, operation, fields)),
            Self::Http(ground, _) => by_request_as(ground, agent, operation, fields),
            Self::ByName(ground, _) => Some(by_operation(ground, agent, operation, fields)),
            Self::Mcp(ground, _) => {
                let variables = [("RELIGHT_AGENT", agent)];
                let mut client = Client::with(&ground.stage, Speaks::Alone, &variables);
                by_tool(operation, fields, |tool, fields| client.call(tool, fields))
            }
            Self::McpHttp(ground, _) => by_tool(operation, fields, |tool, fields| {
                post_tool_as(ground, agent, tool, fields)
            }),
            Self::Library(..) => None,
            Self::Sdk(ground, _) => {
                let client = package::open(ground, Some(agent));
                Some(package::call(&client, operation, fields))
            }
            Self::Package(ground, package) => Package::start(package.name, ground, Some(agent))
                .map(|mut package| package.call(operation, fields)),
        }
    }

    /// What everybody can read afterwards: each event without who, when and where.
    pub(crate) fn journal(&self) -> Vec<String> {
        let said = self
            .ground()
            .call(&["events", "--json", "-n", "10000"])
            .stdout;
        let events = said
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let of_work = events.filter(|event| {
            let kind = event["kind"].as_str().unwrap();
            ["task.", "step.", "lease.", "alert", "checkpoint."]
                .iter()
                .any(|start| kind.starts_with(start))
        });
        of_work.map(|event| line(&event)).collect()
    }
}

fn daemon() -> (Ground, Supervisor) {
    let ground = Ground::new();
    ground.config("[daemon]\nlisten = \"127.0.0.1:0\"\n");
    let up = ground.up(&[]);
    (ground, up)
}

/// The holders and the lengths of leases are the fronts' own.
fn line(event: &Value) -> String {
    let mut detail = event["detail"].clone();
    if let Some(detail) = detail.as_object_mut() {
        for own in [
            "holder",
            "ttl_ms",
            "at",
            "until",
            "again_at",
            "context",
            "not_before",
        ] {
            detail.remove(own);
        }
        // Folders are the tests' own.
        for path in ["file", "now_at", "folder"] {
            detail.remove(path);
        }
    }
    let word = |name: &str| event[name].as_str().unwrap_or("-").to_owned();
    let step = event["step"].as_str().unwrap_or("-");
    format!(
        "{} {} {step} {} {detail}",
        word("kind"),
        word("task"),
        event["fence"]
    )
}

/// Checkpoint files go where the command line has them: the tests have one working folder together.
fn with_dir(ground: &Ground, operation: &str, fields: &Value) -> Value {
    let mut fields = fields.clone();
    if operation.starts_with("checkpoint.") && fields.get("dir").is_none() {
        fields["dir"] = json!(ground.work("memory/checkpoints"));
    }
    fields
}

fn by_operation(ground: &Ground, agent: &str, operation: &str, fields: &Value) -> Answer {
    let body = json!(package::named(operation, fields)).to_string();
    let path = format!("/api/operations/{operation}");
    let (status, value) = send_as(ground, agent, "POST", &path, &body);
    match value.get("error") {
        Some(error) => {
            assert_eq!(error["status"], status, "{path}: {error}");
            Err(error.clone())
        }
        None => Ok(value),
    }
}

fn by_command(ground: &Ground, operation: &str, fields: &Value) -> Answer {
    by_command_as(ground, "", operation, fields)
}

/// By this agent, unless the name is empty.
fn by_command_as(ground: &Ground, agent: &str, operation: &str, fields: &Value) -> Answer {
    let mut words: Vec<String> = operation.split('.').map(str::to_owned).collect();
    let mut input = None;
    let named = words[0].clone();
    let mut flags = Vec::new();
    if ["session.import", "session.export"].contains(&operation) {
        words.push("-".to_owned());
    }
    for (field, value) in fields.as_object().unwrap() {
        let flag = match field.as_str() {
            "marks" => {
                input = Some(value.to_string());
                continue;
            }
            "file" => {
                words.push(value.as_str().unwrap().to_owned());
                continue;
            }
            field if field == named => {
                words.insert(2, value.as_str().unwrap().to_owned());
                continue;
            }
            "rule" => "--repeat".to_owned(),
            "steps" => "--step".to_owned(),
            "needs" | "skills" => "--skill".to_owned(),
            "payload" => {
                flags.extend(["--payload".to_owned(), value.to_string()]);
                continue;
            }
            "happened" if *value == Value::Bool(false) => {
                flags.push("--did-not".to_owned());
                continue;
            }
            "set" if operation == "task.set" => {
                let pairs = value.as_object().unwrap().iter();
                words.extend(pairs.map(|(key, value)| format!("{key}={}", plain(value))));
                continue;
            }
            // A person's verb takes no fence on the command line.
            "fence" if ["task.cancel", "task.retry"].contains(&operation) => continue,
            "output" => {
                input = value.as_str().map(str::to_owned);
                flags.extend(["--output".to_owned(), "-".to_owned()]);
                continue;
            }
            other => format!("--{}", other.replace('_', "-")),
        };
        match value {
            Value::Bool(true) => flags.push(flag),
            Value::Bool(false) | Value::Null => {}
            Value::Array(all) => {
                flags.extend(all.iter().flat_map(|one| [flag.clone(), plain(one)]));
            }
            Value::Object(all) => {
                let pairs = all
                    .iter()
                    .map(|(key, value)| format!("{key}={}", plain(value)));
                flags.extend(pairs.flat_map(|pair| [flag.clone(), pair]));
            }
            one => flags.extend([flag, plain(one)]),
        }
    }
    words.extend(flags);
    // Leases that follow nobody's life, as over HTTP.
    words.push("--json".to_owned());
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut command = ground.stage.command(&words);
    if !agent.is_empty() {
        command.env("RELIGHT_AGENT", agent);
    }
    if input.is_some() {
        command.stdin(std::process::Stdio::piped());
    }
    let mut child = command.spawn().unwrap();
    if let Some(text) = input {
        child
            .stdin
            .take()
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
    }
    let ran = crate::relight::finish(child);
    let text = if ran.stdout.trim().is_empty() {
        &ran.stderr
    } else {
        &ran.stdout
    };
    // An error comes after what is told of damaged files.
    let text = &text[text.find('{').unwrap_or_default()..];
    let mut value: Value =
        serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {words:?} {ran:?}"));
    match value.get("error") {
        Some(error) => {
            assert_eq!(error["exit"], ran.code, "{words:?} {ran:?}");
            Err(error.clone())
        }
        None => {
            if operation == "session.import" {
                value.as_object_mut().unwrap().remove("file");
            }
            Ok(value)
        }
    }
}

fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

fn by_request(ground: &Ground, operation: &str, fields: &Value) -> Option<Answer> {
    by_request_as(ground, "", operation, fields)
}

fn by_request_as(ground: &Ground, agent: &str, operation: &str, fields: &Value) -> Option<Answer> {
    let mut body: Map<String, Value> = fields.as_object().unwrap().clone();
    let mut take = |name: &str| body.remove(name).map(|value| in_path(&plain(&value)));
    let (noun, verb) = operation.split_once('.').unwrap_or((operation, ""));
    let (method, path) = match (noun, verb) {
        ("task", "add") => {
            let id = fields["task"].clone();
            body.remove("task");
            body.insert("id".to_owned(), id);
            ("POST", "/api/tasks".to_owned())
        }
        ("task", "claim") => ("POST", "/api/tasks/claim".to_owned()),
        ("task", "show") => ("GET", format!("/api/tasks/{}", take("task")?)),
        ("task" | "session", "list") => {
            let pairs = body.iter();
            let pairs = pairs.map(|(name, value)| format!("{name}={}", in_path(&plain(value))));
            let query = pairs.collect::<Vec<_>>().join("&");
            ("GET", format!("/api/{noun}s?{query}"))
        }
        ("task", verb) => ("POST", format!("/api/tasks/{}/{verb}", take("task")?)),
        ("step", verb) => (
            "POST",
            format!(
                "/api/tasks/{}/steps/{}/{verb}",
                take("task")?,
                take("step")?
            ),
        ),
        ("session", "recover" | "shutdown") => ("POST", format!("/api/sessions/{verb}")),
        ("session", "show") => ("GET", format!("/api/sessions/{}", take("session")?)),
        ("session", verb) => ("POST", format!("/api/sessions/{}/{verb}", take("session")?)),
        ("recover", _) => ("POST", "/api/recover".to_owned()),
        _ => return None,
    };
    let body = if method == "GET" {
        String::new()
    } else {
        Value::Object(body).to_string()
    };
    let (status, value) = send_as(ground, agent, method, &path, &body);
    Some(match value.get("error") {
        Some(error) => {
            assert_eq!(error["status"], status, "{method} {path}: {error}");
            Err(error.clone())
        }
        None => Ok(value),
    })
}

fn in_path(text: &str) -> String {
    text.replace('%', "%25")
        .replace('/', "%2F")
        .replace(' ', "%20")
}

/// A request over the daemon's socket, as its user.
pub(crate) fn send(ground: &Ground, method: &str, path: &str, body: &str) -> (u16, Value) {
    send_as(ground, "", method, path, body)
}

fn send_as(ground: &Ground, agent: &str, method: &str, path: &str, body: &str) -> (u16, Value) {
    let accept = if path == "/mcp" {
        "application/json, text/event-stream"
    } else {
        "*/*"
    };
    let mut stream = UnixStream::connect(ground.home("relight.sock")).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(120)))
        .unwrap();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: {accept}\r\nRelight-Agent: {agent}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (
        head[9..12].parse().unwrap(),
        serde_json::from_str(body).unwrap_or(json!({})),
    )
}

/// A call of a tool over `POST /mcp`; of an error, what is in it.
pub(crate) fn post_tool(ground: &Ground, tool: &str, arguments: &Value) -> Value {
    post_tool_as(ground, "", tool, arguments)
}

/// The same by the agent of the header.
pub(crate) fn post_tool_as(ground: &Ground, agent: &str, tool: &str, arguments: &Value) -> Value {
    let params = json!({"name": tool, "arguments": arguments});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let (status, answer) = send_as(ground, agent, "POST", "/mcp", &body.to_string());
    assert_eq!(status, 200, "{answer}");
    let data = &answer["result"]["structuredContent"];
    assert_eq!(
        answer["result"]["isError"],
        data.get("error").is_some(),
        "{answer}"
    );
    data.get("error").unwrap_or(data).clone()
}

/// The tools that there are.
const TOOLS: [&str; 6] = [
    "task.start",
    "task.done",
    "task.block",
    "step.begin",
    "step.end",
    "step.skip",
];

fn by_tool(
    operation: &str,
    fields: &Value,
    call: impl FnOnce(&str, &Value) -> Value,
) -> Option<Answer> {
    let mut fields = fields.clone();
    let tool = match operation {
        "checkpoint.start" | "checkpoint.update" => "checkpoint_save".to_owned(),
        "checkpoint.complete" => {
            fields["status"] = json!("done");
            "checkpoint_save".to_owned()
        }
        "checkpoint.resume" => "checkpoint_resume".to_owned(),
        tool => TOOLS.contains(&tool).then(|| tool.replace('.', "_"))?,
    };
    let answer = call(&tool, &fields);
    Some(if answer.get("code").is_some() {
        Err(answer)
    } else {
        Ok(answer)
    })
}

/// A person is given commands to paste; a model is told to wait, to stop, to ask or which tool to call.
pub(crate) fn settle_hint(person: &Value, model: &mut Value) {
    let hint = model["hint"].as_str().unwrap_or_default();
    let is_command = ["relight ", "--", "RELIGHT_"]
        .iter()
        .any(|mark| hint.contains(mark));
    assert!(!is_command, "{model}");
    assert!(
        person["hint"].is_null() || model["hint"].is_string(),
        "{model}"
    );
    model["hint"] = person["hint"].clone();
}
