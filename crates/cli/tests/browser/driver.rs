//! Speaks WebDriver to Debian's `chromedriver`: JSON over HTTP, one call a function.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use ureq::Agent;

/// The program that steers the browser.
const PROGRAM: &str = "/usr/bin/chromedriver";
/// The browser.
const BROWSER: &str = "/usr/bin/chromium";
/// No call takes longer, the start of the browser among them.
const CALL_MAX: Duration = Duration::from_secs(180);
/// The log of all that the shared browser asked for grows with every test; it is the longest answer.
const ANSWER_MAX: u64 = 1 << 30;
/// A name that leads to this machine, as one whose owner bent it would.
pub(crate) const BENT_NAME: &str = "evil.example";

/// One browser, and who steers it.
pub(crate) struct Driver {
    process: Child,
    agent: Agent,
    /// Where the session's calls go.
    session: String,
    /// Both leave things there.
    _folder: tempfile::TempDir,
}

impl Driver {
    /// Starts both; none when they are not installed.
    pub(crate) fn start() -> Option<Self> {
        if !Path::new(PROGRAM).exists() || !Path::new(BROWSER).exists() {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let mut process = program(folder.path());
        let port = port_of(&mut process);
        let config = Agent::config_builder().http_status_as_error(false);
        let agent: Agent = config.timeout_global(Some(CALL_MAX)).build().into();
        let session = format!("http://127.0.0.1:{port}/session");
        let mut driver = Self {
            process,
            agent,
            session,
            _folder: folder,
        };
        let begun = driver.post("", &json!({"capabilities": {"alwaysMatch": wanted()}}));
        driver.session = format!(
            "{}/{}",
            driver.session,
            begun["sessionId"].as_str().unwrap()
        );
        Some(driver)
    }

    /// A command with its values.
    pub(crate) fn post(&self, path: &str, body: &Value) -> Value {
        self.try_post(path, body)
            .unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// The same, where it may be refused.
    pub(crate) fn try_post(&self, path: &str, body: &Value) -> Result<Value, String> {
        let request = self
            .agent
            .post(self.url(path))
            .header("Content-Type", "application/json");
        let answer = request
            .send(body.to_string())
            .map_err(|error| error.to_string())?;
        read(answer)
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        let answer = self.agent.get(self.url(path)).call().unwrap();
        read(answer).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    pub(crate) fn delete(&self, path: &str) {
        // What is over already need not be ended.
        let _ = self.agent.delete(self.url(path)).call();
    }

    /// A command of the browser's own protocol, for what WebDriver cannot say.
    pub(crate) fn devtools(&self, command: &str, values: &Value) -> Value {
        self.post(
            "/goog/cdp/execute",
            &json!({"cmd": command, "params": values}),
        )
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.session)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.delete("");
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a tool of the test, not a part of the product"
)]
fn program(folder: &Path) -> Child {
    let mut command = Command::new(PROGRAM);
    command
        .arg("--port=0")
        .env("TMPDIR", folder)
        .env("HOME", folder)
        .process_group(0);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command.spawn().unwrap()
}

/// It says where it listens, then nothing more.
fn port_of(process: &mut Child) -> u16 {
    let said = BufReader::new(process.stdout.take().unwrap());
    let mut lines = said.lines().map_while(Result::ok);
    let line = lines
        .find(|line| line.contains("started successfully on port"))
        .unwrap();
    line.trim_end_matches('.')
        .rsplit(' ')
        .next()
        .unwrap()
        .parse()
        .unwrap()
}

fn wanted() -> Value {
    let bend = format!("--host-resolver-rules=MAP {BENT_NAME} 127.0.0.1");
    json!({
        "browserName": "chrome",
        "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        "goog:chromeOptions": {"binary": BROWSER, "args": [
            "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--hide-scrollbars", "--no-first-run", "--disable-extensions",
            "--force-color-profile=srgb", "--window-size=1280,900", bend,
        ]},
    })
}

fn read(mut answer: ureq::http::Response<ureq::Body>) -> Result<Value, String> {
    let body = answer.body_mut().with_config().limit(ANSWER_MAX);
    let text = body.read_to_string().map_err(|error| error.to_string())?;
    let mut value: Value =
        serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))?;
    match value["value"]["error"].as_str() {
        Some(error) => Err(format!("{error}: {}", value["value"]["message"])),
        None => Ok(value["value"].take()),
    }
}
