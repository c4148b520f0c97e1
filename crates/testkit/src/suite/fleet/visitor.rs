//! Somebody from outside: comes late with old fences, and resolves steps that are parked.

use std::time::Duration;

use relight_core::time::Span;
use relight_server::client;
use serde_json::{Value, json};

use super::arena::Arena;
use super::node::Node;
use crate::world::clock;
use crate::world::fleet_log::Deed;
use crate::world::tally::{Promise, Violation};

/// How long an answer may take.
const ASK_MAX: Span = Span::from_ms(300);
/// How often it is looked for steps that are parked.
const RESOLVE_PAUSE: Duration = Duration::from_millis(500);

impl Arena {
    /// Writes with the fence of an attempt that has a successor, as a message would that was long on its
    /// way. Once for each such fence.
    pub(super) fn write_late(&mut self) -> anyhow::Result<Vec<Violation>> {
        let mut found = Vec::new();
        for (agent, fence) in self.overtaken()? {
            let path = format!("/api/tasks/{agent}/steps/late/begin");
            let body = json!({"fence": fence});
            let Some(answered) = self.ask_somebody("POST", &path, Some(&body)) else {
                continue;
            };
            match (answered.status, answered.body["error"]["code"].as_str()) {
                (409, Some("fenced")) => self.late_refused += 1,
                (503 | 408, _) => continue,
                (status, _) => {
                    let text = format!(
                        "{agent}: a write with the old fence {fence} was answered {status} {}",
                        answered.body
                    );
                    found.push(Violation::new(Promise::Fence, text));
                }
            }
            self.tried_late.push((agent, fence));
        }
        Ok(found)
    }

    /// Asks one of those who are not in trouble, another one each time, and does not wait for long: the
    /// schedule goes on.
    fn ask_somebody(
        &mut self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Option<client::DaemonResponse> {
        self.asked += 1;
        let well: Vec<&Node> = self
            .nodes
            .iter()
            .filter(|node| node.trouble.is_none())
            .collect();
        let node = well
            .get(self.asked % well.len().max(1))
            .filter(|_| self.is_database_up)?;
        let socket = node.machine.home().join("relight.sock");
        client::send(&socket, method, path, body, ASK_MAX).ok()
    }

    /// Each agent with the fence before its newest, where nobody tried that one yet.
    fn overtaken(&self) -> anyhow::Result<Vec<(String, u64)>> {
        let lines = self.log.lines()?;
        let of_agent = |agent: &String| {
            let births = lines.iter().filter(|line| line.agent == *agent);
            let mut fences = births.filter_map(|line| match line.deed {
                Deed::Born { fence, .. } => Some(fence),
                _ => None,
            });
            let newest = fences.next_back()?;
            let before = fences.next_back().filter(|before| *before < newest)?;
            Some((agent.clone(), before))
        };
        let all = self.agents.iter().filter_map(of_agent);
        Ok(all.filter(|late| !self.tried_late.contains(late)).collect())
    }

    /// A step that was lost twice with its node waits for a person, who looks at the world and says.
    pub(super) fn resolve_parked(&mut self) -> anyhow::Result<()> {
        if self.resolved_at.elapsed() < RESOLVE_PAUSE {
            return Ok(());
        }
        self.resolved_at = clock::now();
        let Some(blocked) = self.ask_somebody("GET", "/api/tasks?status=blocked", None) else {
            return Ok(());
        };
        let tasks = blocked.body["items"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        for id in tasks.iter().filter_map(|task| task["id"].as_str()) {
            let path = format!("/api/tasks/{id}");
            let Some(task) = self.ask_somebody("GET", &path, None) else {
                continue;
            };
            let Some(step) = task.body["in_doubt"][0].as_str() else {
                continue;
            };
            let lines = self.log.lines()?;
            let is_its =
                |deed: &Deed| matches!(deed, Deed::Effect { step: its, .. } if its == step);
            let happened = lines
                .iter()
                .any(|line| line.agent == id && is_its(&line.deed));
            let path = format!("{path}/steps/{step}/resolve");
            let answered = self.ask_somebody("POST", &path, Some(&json!({"happened": happened})));
            self.resolved += u64::from(answered.is_some_and(|answered| answered.status == 200));
        }
        Ok(())
    }
}
