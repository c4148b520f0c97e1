//! A daemon with agents, and a browser's way into it.

use std::time::Duration;

use serde_json::Value;

use crate::ground::{Ground, ONLY_ONE, Supervisor};
use crate::page::Page;

/// The end of a page's first load: everything that is fetched first is on the screen.
const LIVE: &str = "document.getElementById('link')?.dataset.state === 'live' \
    && !document.querySelector('.skeleton, .loading')";

/// The daemon answers sooner.
const ANSWER_MAX: Duration = Duration::from_secs(120);

/// A daemon on a ground of its own.
pub(crate) struct House {
    pub(crate) ground: Ground,
    pub(crate) daemon: Option<Supervisor>,
    /// `127.0.0.1:PORT`
    pub(crate) address: String,
}

impl House {
    /// With one agent, `writer`, that lives until it is told to end.
    pub(crate) fn with_writer() -> Self {
        Self::with(&format!("{ONLY_ONE}exec sleep 1000"), &agent("writer"))
    }

    /// With no agents at all.
    pub(crate) fn empty() -> Self {
        Self::with("exec sleep 1000", "")
    }

    pub(crate) fn with(script: &str, config: &str) -> Self {
        Self::on(Ground::with_agent(script), config)
    }

    /// On a ground that has something already.
    pub(crate) fn on(ground: Ground, config: &str) -> Self {
        ground.config(config);
        let daemon = Some(ground.up(&["--listen", "127.0.0.1:0"]));
        let link = link(&ground);
        let address = link
            .trim_start_matches("http://")
            .split('/')
            .next()
            .unwrap()
            .to_owned();
        Self {
            ground,
            daemon,
            address,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// What the login page says to type.
    pub(crate) fn login_command(&self) -> String {
        format!(
            "relight --home {} dashboard",
            self.ground
                .work("../home")
                .canonicalize()
                .unwrap()
                .display()
        )
    }

    /// A link that logs in.
    pub(crate) fn link(&self) -> String {
        link(&self.ground)
    }

    /// The address of a page of the dashboard.
    pub(crate) fn at(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Logs a page in, and waits until it shows what there is.
    pub(crate) fn enter(&self, page: &Page<'_>) {
        page.go(&self.link());
        page.until("location.pathname === '/'");
        page.until(LIVE);
    }

    /// Asks the daemon as a program does; its status and what it answered.
    pub(crate) fn post_with(&self, token: &str, path: &str, body: &Value) -> (u16, Value) {
        let config = ureq::Agent::config_builder().http_status_as_error(false);
        let agent: ureq::Agent = config.timeout_global(Some(ANSWER_MAX)).build().into();
        let request = agent.post(format!("http://{}{path}", self.address));
        let request = request.header("Authorization", format!("Bearer {token}"));
        let request = request.header("Content-Type", "application/json");
        let mut answer = request.send(body.to_string()).unwrap();
        let text = answer.body_mut().read_to_string().unwrap();
        (
            answer.status().as_u16(),
            serde_json::from_str(&text).unwrap_or_default(),
        )
    }

    /// SIGKILL to the daemon; the agents go on.
    pub(crate) fn kill_daemon(&mut self) {
        self.daemon.take().unwrap().kill();
    }

    /// The daemon again, where it was.
    pub(crate) fn start_daemon(&mut self) {
        self.daemon = Some(self.ground.up(&["--listen", &self.address]));
    }
}

/// An agent's table for `relight.toml`.
pub(crate) fn agent(name: &str) -> String {
    format!(
        "[[agent]]\nname = \"{name}\"\ncommand = [\"./agent\"]\ncooldown = \"50ms\"\ngrace = \"2s\"\n"
    )
}

/// Waits until a view that was asked for shows what it fetched.
pub(crate) fn until_shown(page: &Page<'_>, view: &str) {
    page.until(&format!("document.body.dataset.view === '{view}'"));
    page.until(LIVE);
}

fn link(ground: &Ground) -> String {
    ground.json(&["dashboard", "--print"])["url"]
        .as_str()
        .unwrap()
        .to_owned()
}
