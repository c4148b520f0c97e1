//! A call of `relight hook`, which an agent waits for before and after each tool, beside the least that the
//! binary can do.

use serde_json::json;

use crate::call::Call;
use crate::contest::Contest;
use crate::row::{Row, Target};
use crate::stage::Stage;

const VERSION: &str = "relight --version";

/// Before and after a tool. Each begin is durable before the tool runs.
pub(crate) fn rows(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let folder = stage.subfolder("hook")?;
    let home = folder.join("home").to_string_lossy().into_owned();
    let hook = |event: &str, round: usize| {
        let payload = json!({"session_id": "bench", "cwd": folder, "tool_name": "Bash",
            "tool_input": {"command": "true"}, "tool_use_id": format!("call-{round}"),
            "tool_response": {}});
        let call = Call::new(stage.relight(), &folder).environment("RELIGHT_HOME", &home);
        call.line(&format!("hook {event} --for claude"), 0)
            .input(payload.to_string())
    };
    // The store is made, and a turn is open.
    hook("prompt", 0).stdout()?;
    let mut contest = Contest::default();
    let version = Call::new(stage.relight(), &folder).argument("--version");
    contest.enter(VERSION, move |_| version.wall_ms());
    contest.enter("before-tool", |round| hook("before-tool", round).wall_ms());
    contest.enter("after-tool", |round| hook("after-tool", round).wall_ms());
    let results = contest.run(stage.pick(100, 15))?;
    let row = |event: &str| {
        let row = Row::new(format!("hook {event}"), "ms").figure(results.get(event));
        row.beside(VERSION, results.get(VERSION))
            .target(Target::TimesFloorMax(1.5))
    };
    Ok(vec![row("before-tool"), row("after-tool")])
}
