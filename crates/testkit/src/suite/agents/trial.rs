//! One program, one moment: set up, run, struck, and looked at.

use std::fs::{self, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Pid, Signal};
use serde_json::Value;

use super::client::Client;
use super::moment::{Blow, Moment};
use super::worker::{Worker, is_brief, is_named_in_doubt};
use crate::model::{Asked, StubModel};
use crate::world::group::ends_within;
use crate::world::product::{Product, finish};
use crate::world::seed::Seed;
use crate::world::tally::{Promise, Violation};
use crate::world::{clock, processes};

/// The moment comes by then, also on a busy machine.
const MOMENT_MAX: Duration = Duration::from_secs(180);
/// The work is done by then.
const END_MAX: Duration = Duration::from_secs(300);
/// Acts of a trial at named moments.
const ACTS: usize = 2;

/// The tool: an act appends one line and prints what nobody else knows. A file in `hold` makes it wait once.
const ACT: &str = r#"#!/bin/sh
cd "$(dirname "$0")" || exit 1
hold() { # PLACE ACT
  rm "hold/$1-$2" 2>/dev/null || return 0
  echo "$1 $2" > moments
  [ "$1" = ended ] || read -r word < gate
}
case $1 in
do)
  hold before "$2"
  echo "effect $2" >> effects
  hold after "$2"
  cat "secrets/$2"
  hold ended "$2"
  ;;
check)
  if grep -qx "effect $2" effects 2>/dev/null; then echo "check-$2-yes"; else echo "check-$2-no"; fi
  ;;
esac
"#;

/// What a trial waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Happening {
    /// The moment has come.
    Moment,
}

/// A trial's folder, model and supervisor.
pub(super) struct Trial<'a> {
    pub(super) product: &'a Product,
    pub(super) client: Client,
    pub(super) clis: &'a Path,
    pub(super) name: String,
    /// `home` of the program, `work`, `state` of Relight.
    pub(super) root: PathBuf,
    pub(super) worker: Arc<Worker>,
    pub(super) port: u16,
    pub(super) prompt: String,
    pub(super) happenings: Receiver<Happening>,
    /// Whether the agent gets a task; else its conversation has one of its own.
    pub(super) has_task: bool,
}

/// Runs one trial at a named moment.
pub(super) fn at_moment(
    product: &Product,
    clis: &Path,
    root: &Path,
    client: Client,
    moment: Moment,
    seed: u64,
) -> anyhow::Result<Vec<Violation>> {
    let mut seed = Seed::of_trial(seed, moment as u64);
    let trial = Trial::make(product, clis, root, client, Some(moment), ACTS, &mut seed)?;
    let outcome = trial.strike(moment);
    trial.clean_up();
    outcome
}

impl<'a> Trial<'a> {
    pub(super) fn make(
        product: &'a Product,
        clis: &'a Path,
        root: &Path,
        client: Client,
        moment: Option<Moment>,
        acts: usize,
        seed: &mut Seed,
    ) -> anyhow::Result<Self> {
        let work = root.join("work");
        for folder in ["work/hold", "work/secrets", "home"] {
            fs::create_dir_all(root.join(folder))?;
        }
        let secrets: Vec<String> = (1..=acts)
            .map(|act| format!("result-{act}-{:x}", seed.draw() >> 24))
            .collect();
        for (at, secret) in secrets.iter().enumerate() {
            fs::write(
                work.join(format!("secrets/{}", at + 1)),
                format!("{secret}\n"),
            )?;
        }
        if let Some((place, act)) = moment.and_then(Moment::act) {
            fs::write(work.join(format!("hold/{place}-{act}")), "")?;
        }
        fs::write(work.join("act"), ACT)?;
        fs::set_permissions(work.join("act"), fs::Permissions::from_mode(0o755))?;
        let (sender, happenings) = channel();
        listen(&work, sender.clone())?;
        let worker = Arc::new(Worker {
            client,
            acts,
            secrets,
            hold: moment.and_then(Moment::hold),
            refusals: moment.and_then(Moment::refusals),
            reached: Mutex::new(sender),
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let mind = Arc::clone(&worker);
        let model = StubModel::bind(0, mind, Some(&root.join("requests")))?;
        let port = model.port()?;
        std::thread::spawn(move || model.serve());
        client.set_up(&root.join("home"), &work, port, clis)?;
        let token = seed.draw() >> 24;
        let trial = Self {
            product,
            client,
            clis,
            name: format!("p{}-{}-{token:x}", std::process::id(), client.name()),
            root: root.to_owned(),
            worker,
            port,
            prompt: format!("prompt-{token:x}: work through your acts"),
            happenings,
            has_task: false,
        };
        let scope = if client.has_user_hooks() {
            "--user"
        } else {
            "--in-project"
        };
        let words = ["setup", "hooks", "--for", client.name(), scope];
        let answer = finish(&mut trial.relight(&words))?;
        anyhow::ensure!(answer.code == 0, "setup hooks: {}", answer.stderr);
        Ok(trial)
    }

    /// A verb of the product in the program's environment.
    pub(super) fn relight(&self, words: &[&str]) -> Command {
        let mut command = self.product.relight(&self.root.join("state"), words);
        command
            .env("HOME", self.root.join("home"))
            .env("PATH", self.client.path(self.clis));
        command
            .envs(self.client.variables(self.port))
            .current_dir(self.root.join("work"));
        command
    }

    /// `relight run` with the program.
    pub(super) fn start(&self, options: &[&str]) -> anyhow::Result<Child> {
        let task = ["--task", "work", "--exit-completes"];
        let task = if self.has_task { &task[..] } else { &[] };
        let words = self.client.words(&self.prompt);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let run = [
            "run",
            "--name",
            &self.name,
            "--preset",
            self.client.preset(),
        ];
        let all = [&run[..], &["--defer", "2s"], options, task, &["--"], &words].concat();
        let log = || {
            OpenOptions::new()
                .create(true)
                .append(true)
                .open(self.root.join("log"))
        };
        let mut command = self.relight(&all);
        command.stdin(Stdio::null()).stdout(log()?).stderr(log()?);
        command.spawn().context("cannot start `relight run`")
    }

    fn strike(&self, moment: Moment) -> anyhow::Result<Vec<Violation>> {
        // Long enough for a start on a busy machine.
        let silence = if moment == Moment::Frozen {
            "25s"
        } else {
            "3m"
        };
        let options = ["--silence-max", silence, "--cooldown", "1s"];
        let mut run = self.start(&options)?;
        let blow = moment.blow();
        if blow != Blow::None && !self.comes(moment, &mut run)? {
            let _ = run.kill();
            run.wait()?;
            let log = self.log_end();
            return Ok(vec![Violation::new(
                Promise::Answer,
                format!("it never came: {log}"),
            )]);
        }
        let asked_before = self.worker.asked().len();
        match blow {
            Blow::None => {}
            Blow::Kill => self.kill_agent(),
            Blow::KillTwice => {
                self.kill_agent();
                let asks = || Ok(self.worker.asked().len() > asked_before);
                if clock::becomes(MOMENT_MAX, asks)? {
                    self.kill_agent();
                }
            }
            Blow::Freeze => {
                for (pid, _) in processes::tagged(|agent| agent == self.name) {
                    processes::signal(pid, Signal::STOP);
                }
            }
            Blow::KillSupervisor => {
                run.kill()?;
                run.wait()?;
                // The tool goes on while nobody supervises.
                let gate = self.root.join("work/gate");
                OpenOptions::new()
                    .read(true)
                    .write(true)
                    .open(gate)?
                    .write_all(b"go\n")?;
                run = self.start(&options)?;
            }
            Blow::KillEverything | Blow::Tear => {
                run.kill()?;
                run.wait()?;
                processes::end_all(|agent| agent == self.name);
                if blow == Blow::Tear {
                    self.tear()?;
                }
                run = self.start(&options)?;
            }
        }
        self.worker.release();
        let in_time = ends_within(Pid::from_child(&run), END_MAX)?;
        if !in_time {
            let _ = run.kill();
        }
        let code = run.wait()?.code();
        if !in_time {
            let text = format!("not done after {END_MAX:?}: {}", self.log_end());
            return Ok(vec![Violation::new(Promise::Lost, text)]);
        }
        self.look(moment, code, asked_before)
    }

    /// Waits for the moment; whether it came before the program ended.
    fn comes(&self, moment: Moment, run: &mut Child) -> anyhow::Result<bool> {
        if moment == Moment::Boot {
            return clock::becomes(MOMENT_MAX, || {
                Ok(!processes::tagged(|agent| agent == self.name).is_empty())
            });
        }
        let end = clock::now() + MOMENT_MAX;
        while clock::now() < end {
            if self
                .happenings
                .recv_timeout(Duration::from_millis(500))
                .is_ok()
            {
                return Ok(true);
            }
            if run.try_wait()?.is_some() {
                return Ok(false);
            }
        }
        Ok(false)
    }

    pub(super) fn kill_agent(&self) {
        for (pid, _) in processes::tagged(|agent| agent == self.name) {
            processes::kill(pid);
        }
    }

    /// Half a line at the end of each transcript.
    fn tear(&self) -> anyhow::Result<()> {
        let mut torn = 0;
        for path in files_below(&self.root.join("home"), 8) {
            let is_transcript = path.extension().is_some_and(|end| end == "jsonl")
                && fs::read_to_string(&path).is_ok_and(|text| text.contains(&self.prompt))
                && !path.ends_with("history.jsonl");
            if is_transcript {
                let mut file = OpenOptions::new().append(true).open(path)?;
                file.write_all(br#"{"type":"assistant","mess"#)?;
                torn += 1;
            }
        }
        anyhow::ensure!(torn > 0, "no transcript has the prompt");
        Ok(())
    }

    fn look(
        &self,
        moment: Moment,
        code: Option<i32>,
        asked_before: usize,
    ) -> anyhow::Result<Vec<Violation>> {
        let mut found = Vec::new();
        let mut say = |promise, text: String| found.push(Violation::new(promise, text));
        let deaths = self.json(&["deaths", &self.name, "--json"])?;
        let deaths = deaths["items"].as_array().cloned().unwrap_or_default();
        if moment == Moment::Refused {
            let said: String = deaths.iter().map(Value::to_string).collect();
            if code == Some(0) || deaths.len() != 1 {
                say(
                    Promise::Record,
                    format!("exit {code:?} after {} deaths", deaths.len()),
                );
            }
            let note = |death: &Value| format!("{} {}", death["how"], death["note"]);
            if !deaths.iter().any(|death| note(death).contains("401")) {
                let notes: Vec<String> = deaths.iter().map(note).collect();
                say(
                    Promise::Record,
                    format!("no death says 401: {}", notes.join("; ")),
                );
            }
            if !said.contains("API key") {
                say(
                    Promise::Record,
                    "the provider's reason is not kept".to_owned(),
                );
            }
            return Ok(found);
        }
        if code != Some(0) {
            say(
                Promise::Answer,
                format!("exit {code:?}: {}", self.log_end()),
            );
        }
        for act in 1..=self.worker.acts {
            match self.effects(act) {
                1 => {}
                0 => say(Promise::Lost, format!("act {act} did not happen")),
                times => say(
                    Promise::Repeated,
                    format!("act {act} happened {times} times"),
                ),
            }
        }
        let steps = self.step_events()?;
        for act in 1..=self.worker.acts {
            if !steps
                .iter()
                .any(|(_, step)| step.contains(&format!("./act do {act}")))
            {
                say(Promise::Record, format!("no hook recorded act {act}"));
            }
        }
        let asked = self.worker.asked();
        match asked.get(asked_before) {
            _ if matches!(moment, Moment::Limit | Moment::Supervisor) => {}
            Some(successor) => {
                self.look_at_successor(moment, &asked[..asked_before], successor, say);
            }
            None if matches!(moment, Moment::End) => {}
            None => say(
                Promise::Lost,
                "the successor never asked the model".to_owned(),
            ),
        }
        if moment == Moment::Limit {
            let charged = self.json(&["ps", "--json"])?;
            let charged = charged["items"][0]["recoveries_in_a_row"].as_u64();
            if charged.is_none_or(|count| count > 0) {
                found.push(Violation::new(
                    Promise::Record,
                    format!("charged {charged:?}"),
                ));
            }
        }
        let left = processes::tagged(|agent| agent == self.name);
        if !left.is_empty() {
            found.push(Violation::new(Promise::LeftBehind, format!("{left:?}")));
        }
        Ok(found)
    }

    /// The successor's first request: the same conversation, complete, and told of what is in doubt.
    fn look_at_successor(
        &self,
        moment: Moment,
        before: &[Asked],
        successor: &Asked,
        mut say: impl FnMut(Promise, String),
    ) {
        let has = |asked: &Asked, what: &str| {
            asked
                .texts
                .iter()
                .any(|text| text.contains(what) && !is_brief(text))
        };
        if !successor
            .texts
            .iter()
            .any(|text| text.contains(&self.prompt))
        {
            say(
                Promise::Lost,
                "the successor was not told the prompt".to_owned(),
            );
        }
        for (at, secret) in self.worker.secrets.iter().enumerate() {
            // Some write their transcript a moment later than they act: what was never written is lost, but
            // the call is known.
            let call = format!("./act do {}", at + 1);
            let is_known = successor.texts.iter().any(|text| text.contains(&call));
            let had = before.iter().any(|asked| has(asked, secret));
            if had && !has(successor, secret) && !is_known {
                say(
                    Promise::Lost,
                    format!("nothing of act {} is in its history", at + 1),
                );
            }
        }
        if moment.act().is_some() && !has(successor, &self.prompt) {
            say(Promise::Lost, "it is another conversation".to_owned());
        }
        if let Some(act) = moment.act_in_doubt()
            && !successor
                .texts
                .iter()
                .any(|text| is_named_in_doubt(text, act))
        {
            say(Promise::Rule, format!("act {act} is not named in doubt"));
        }
    }

    /// How often an act happened.
    pub(super) fn effects(&self, act: usize) -> usize {
        let effects = fs::read_to_string(self.root.join("work/effects")).unwrap_or_default();
        effects
            .lines()
            .filter(|line| *line == format!("effect {act}"))
            .count()
    }

    /// What the journal says about steps, in order: the kind of the event and the step.
    pub(super) fn step_events(&self) -> anyhow::Result<Vec<(String, String)>> {
        let answer = finish(&mut self.relight(&["events", "--all", "--json"]))?;
        let mut events = Vec::new();
        for line in answer.stdout.lines() {
            let event: Value = serde_json::from_str(line).context("an event")?;
            let text = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
            if event["step"].is_string() {
                events.push((text("kind"), text("step")));
            }
        }
        Ok(events)
    }

    pub(super) fn json(&self, words: &[&str]) -> anyhow::Result<Value> {
        finish(&mut self.relight(words))?.json()
    }

    /// The last lines of what the supervisor said, without the program's output.
    pub(super) fn log_end(&self) -> String {
        let log = fs::read_to_string(self.root.join("log")).unwrap_or_default();
        let lines: Vec<&str> = log
            .lines()
            .filter(|line| line.starts_with("relight:"))
            .collect();
        lines[lines.len().saturating_sub(6)..].join(" | ")
    }

    pub(super) fn clean_up(&self) {
        self.worker.release();
        processes::end_all(|agent| agent == self.name);
    }
}

/// Passes on what acts say into `moments`.
fn listen(work: &Path, to: Sender<Happening>) -> anyhow::Result<()> {
    for name in ["moments", "gate"] {
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(
            rustix::fs::CWD,
            work.join(name),
            rustix::fs::FileType::Fifo,
            mode,
            0,
        )?;
    }
    // Also for writing: there is always a writer, and so no end.
    let moments = OpenOptions::new()
        .read(true)
        .write(true)
        .open(work.join("moments"))?;
    std::thread::spawn(move || {
        for _line in BufReader::new(moments).lines().map_while(Result::ok) {
            if to.send(Happening::Moment).is_err() {
                return;
            }
        }
    });
    Ok(())
}

fn files_below(folder: &Path, depth: usize) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut files = Vec::new();
    for path in entries.flatten().map(|entry| entry.path()) {
        match path.symlink_metadata() {
            Ok(found) if found.is_dir() && depth > 0 => files.extend(files_below(&path, depth - 1)),
            Ok(found) if found.is_file() => files.push(path),
            _ => {}
        }
    }
    files
}
