//! Packages of other languages as fronts: the client that they share, and the packages themselves.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use relight_sdk::{Client, OpenOptions, Refused};
use serde_json::{Map, Value, json};

use crate::front::Answer;
use crate::ground::Ground;

/// The client on the home of the ground.
pub(crate) fn open(ground: &Ground, agent: Option<&str>) -> Client {
    let options = OpenOptions {
        home: Some(ground.home("")),
        agent: agent.map(str::to_owned),
        ..OpenOptions::default()
    };
    Client::open(options).unwrap()
}

pub(crate) fn call(client: &Client, operation: &str, fields: &Value) -> Answer {
    let calling = client.call(operation, named(operation, fields));
    let waited = client.wait(calling, || Ok::<(), Refused>(()));
    waited.unwrap().map_err(|refused| json!(refused))
}

/// The fields by the names that operations have for them.
pub(crate) fn named(operation: &str, fields: &Value) -> Map<String, Value> {
    let noun = operation.split('.').next().unwrap();
    let renamed = fields.as_object().unwrap().iter().map(|(name, value)| {
        let name = match (noun, name.as_str()) {
            ("task", "task") if operation == "task.add" => "id",
            ("session", "session") => "key",
            (_, name) => name,
        };
        (name.to_owned(), value.clone())
    });
    renamed.collect()
}

/// A process in the language of a package that answers a line for each line.
pub(crate) struct Package {
    pub(crate) name: &'static str,
    child: Child,
    asks: ChildStdin,
    answers: BufReader<ChildStdout>,
}

const PROGRAM: &str = "
import json, sys, relight
store = relight.open(sys.argv[1], agent=sys.argv[2] or None)
for line in sys.stdin:
    operation, given = json.loads(line)
    try:
        answer = {'answer': store.call(operation, **given)}
    except relight.Refused as e:
        answer = {'error': {'code': e.code, 'exit': e.exit, 'status': e.status,
                            'message': e.message, 'hint': e.hint}}
    print(json.dumps(answer), flush=True)
";

impl Package {
    pub(crate) const NAMES: [&'static str; 2] = ["python", "typescript"];

    /// None where the package is not installed; the script of its name in `crates/testkit/scripts` does that.
    pub(crate) fn start(name: &'static str, ground: &Ground, agent: Option<&str>) -> Option<Self> {
        let target = Path::new(env!("CARGO_BIN_EXE_relight"))
            .parent()?
            .parent()?;
        let command = match name {
            "python" => python(target),
            _ => node(target),
        };
        let Some(mut command) = command else {
            let target = target.display();
            println!("SKIPPED: the stories through {name} (no package below {target})");
            return None;
        };
        let mut child = command
            .arg(ground.home(""))
            .arg(agent.unwrap_or_default())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let asks = child.stdin.take().expect("it is piped");
        let answers = BufReader::new(child.stdout.take().expect("it is piped"));
        Some(Self {
            name,
            child,
            asks,
            answers,
        })
    }

    pub(crate) fn call(&mut self, operation: &str, fields: &Value) -> Answer {
        let request = json!([operation, named(operation, fields)]);
        writeln!(self.asks, "{request}").unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        let told: Value = serde_json::from_str(&line).unwrap();
        match told.get("error") {
            Some(error) => Err(error.clone()),
            None => Ok(told["answer"].clone()),
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the test starts it, not the product"
)]
fn python(target: &Path) -> Option<Command> {
    let python = target.join("python/venv/bin/python");
    let native = Command::new(&python)
        .args(["-c", "import relight._native"])
        .stderr(Stdio::null())
        .status();
    let mut command = Command::new(&python);
    command.args(["-c", PROGRAM]);
    native
        .is_ok_and(|status| status.success())
        .then_some(command)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the test starts it, not the product"
)]
fn node(target: &Path) -> Option<Command> {
    let program = target.join("typescript/test/front.mjs");
    let mut command = Command::new("node");
    command.arg(&program);
    program.exists().then_some(command)
}

impl Drop for Package {
    fn drop(&mut self) {
        // It ends with its input; a test that failed waits for nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
