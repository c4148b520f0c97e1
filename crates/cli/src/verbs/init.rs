//! `relight init`: a short `relight.toml` for the agent program that is installed here.

use std::fs::OpenOptions;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use serde_json::json;

use crate::arguments::other::InitArguments;
use crate::config::FILE_NAME;
use crate::environment::Environment;
use crate::exit::{Exit, Failure, Outcome};
use crate::{output, whole_file};

/// What an agent is told to do when nobody says it.
const PROMPT: &str = "Read TODO.md and do the next open item";
/// Questions after wrong answers end: whoever answers may be a program.
const ANSWERS_MAX: usize = 5;

/// An agent's program: how it is started with a prompt, and which variable holds its key.
struct AgentProgram {
    name: &'static str,
    preset: &'static str,
    /// Before the prompt.
    words: &'static [&'static str],
    key: &'static str,
}

const fn program(
    name: &'static str,
    preset: &'static str,
    words: &'static [&'static str],
    key: &'static str,
) -> AgentProgram {
    AgentProgram {
        name,
        preset,
        words,
        key,
    }
}

const PROGRAMS: [AgentProgram; 9] = [
    program(
        "claude",
        "claude-code",
        &["claude", "-p"],
        "ANTHROPIC_API_KEY",
    ),
    program("codex", "codex", &["codex", "exec"], "OPENAI_API_KEY"),
    program("gemini", "gemini", &["gemini", "-p"], "GEMINI_API_KEY"),
    program(
        "opencode",
        "opencode",
        &["opencode", "run"],
        "OPENAI_API_KEY",
    ),
    program("kimi", "kimi", &["kimi", "-p"], "KIMI_API_KEY"),
    program("qwen", "qwen", &["qwen", "-p"], "OPENAI_API_KEY"),
    program("copilot", "copilot", &["copilot", "-p"], "GITHUB_TOKEN"),
    program("pi", "pi", &["pi", "-p"], "ANTHROPIC_API_KEY"),
    program(
        "aider",
        "aider",
        &["aider", "--yes", "--message"],
        "OPENAI_API_KEY",
    ),
];

/// Runs everywhere, writes a line every few seconds, and needs no model.
const EXAMPLE: &str =
    r#"["sh", "-c", "n=0; while sleep 2; do n=$((n+1)); echo \"round $n\"; done"]"#;

pub(crate) fn run(environment: &Environment, arguments: &InitArguments) -> Outcome {
    let file = std::path::absolute(FILE_NAME)
        .map_err(|error| Failure::new(Exit::Io, format!("cannot use this folder: {error}")))?;
    if file.symlink_metadata().is_ok() {
        let text = format!("{} exists and is not changed", file.display());
        return Err(Failure::new(Exit::No, text)
            .hint("relight up -d runs it; relight setup config --print shows every key"));
    }
    let installed: Vec<&AgentProgram> = PROGRAMS
        .iter()
        .filter(|it| is_installed(environment, it.name))
        .collect();
    let (chosen, prompt) = choose(arguments, &installed)?;
    let text = starter(environment, chosen, &prompt);
    create(&file, &text).map_err(|error| whole_file::failure("write", &file, &error))?;
    // Before anything is recorded elsewhere: a new project has a home of its own.
    environment.record_project();
    let agent = chosen.map_or("example", |program| program.name);
    let names: Vec<&str> = installed.iter().map(|program| program.name).collect();
    let value = json!({
        "file": file, "agent": agent, "preset": chosen.map(|it| it.preset), "installed": names,
    });
    let found = match names.is_empty() {
        true if chosen.is_some() => "no agent program was found".to_owned(),
        true => "no agent program was found: the file has an example that needs none".to_owned(),
        false => format!("found: {}", names.join(", ")),
    };
    let text = format!(
        "wrote {} with the agent {agent} ({found})\n\
         next: relight up -d starts it, relight logs {agent} -f shows its output, relight status and \
         relight dashboard show the rest",
        file.display()
    );
    output::answer(environment, &value, &text);
    if let Some(missing) = chosen.filter(|it| !names.contains(&it.name)) {
        let name = missing.name;
        let text = format!("there is no program {name} in PATH: install it before relight up -d");
        output::note(environment, &text);
    }
    Ok(0)
}

/// At most two questions: which program, and what it does. Without a terminal they need answers in flags.
fn choose<'p>(
    arguments: &InitArguments,
    installed: &[&'p AgentProgram],
) -> Result<(Option<&'p AgentProgram>, String), Failure> {
    let given = match &arguments.agent {
        Some(name) => Some(named(name)?),
        None => None,
    };
    let prompt = arguments.prompt.clone();
    let first = given.or(installed.first().copied());
    if arguments.yes || first.is_none() || (given.is_some() && prompt.is_some()) {
        return Ok((first, prompt.unwrap_or_else(|| PROMPT.to_owned())));
    }
    if !(output::is_terminal() && io::stdin().is_terminal()) {
        let text = "nothing was written: there is no terminal to ask on";
        return Err(
            Failure::new(Exit::Usage, text).hint("add --yes, or --agent PROGRAM and --prompt TEXT")
        );
    }
    let chosen = match given {
        Some(given) => given,
        None => ask_program(installed)?,
    };
    let prompt = match prompt {
        Some(prompt) => prompt,
        None => ask(
            &format!("What should {} do? [{PROMPT}]", chosen.name),
            PROMPT,
        )?,
    };
    Ok((Some(chosen), prompt))
}

fn named(name: &str) -> Result<&'static AgentProgram, Failure> {
    let found = PROGRAMS
        .iter()
        .find(|program| program.name == name || program.preset == name);
    found.ok_or_else(|| {
        let known: Vec<&str> = PROGRAMS.iter().map(|program| program.name).collect();
        Failure::new(
            Exit::Usage,
            format!("{name:?} is not an agent program that Relight knows"),
        )
        .hint(format!(
            "known are {}; any other command: edit relight.toml",
            known.join(", ")
        ))
    })
}

fn ask_program<'p>(installed: &[&'p AgentProgram]) -> Result<&'p AgentProgram, Failure> {
    if let [only] = installed {
        return Ok(only);
    }
    let names: Vec<&str> = installed.iter().map(|program| program.name).collect();
    let question = format!("Which agent? {} [{}]", names.join(", "), names[0]);
    for _ in 0..ANSWERS_MAX {
        let answer = ask(&question, names[0])?;
        match installed.iter().find(|program| program.name == answer) {
            Some(found) => return Ok(found),
            None => output::line(&format!("{answer:?} is not one of {}", names.join(", "))),
        }
    }
    let text = "nothing was written: no answer names an agent program";
    Err(Failure::new(Exit::Usage, text).hint("relight init --agent PROGRAM"))
}

fn ask(question: &str, default: &str) -> Result<String, Failure> {
    output::write_out(format!("{question} ").as_bytes());
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    match (read, answer.trim()) {
        (Ok(0) | Err(_), _) => Err(Failure::new(Exit::No, "nothing was written: no answer")),
        (Ok(_), "") => Ok(default.to_owned()),
        (Ok(_), answer) => Ok(answer.to_owned()),
    }
}

/// The file: about fifteen lines, of which a person changes two.
fn starter(environment: &Environment, program: Option<&AgentProgram>, prompt: &str) -> String {
    let agent = match program {
        None => format!(
            "name    = \"example\"\ncommand = {EXAMPLE}\nrestart = \"always\"      # or \"on-failure\", \"never\"\n"
        ),
        Some(AgentProgram {
            name,
            preset,
            words,
            key,
        }) => {
            let words: Vec<String> = words
                .iter()
                .copied()
                .chain([prompt])
                .map(|word| toml_edit::Value::from(word).to_string())
                .collect();
            // An agent gets a short list of variables; its key is not among them.
            let (hash, then) = match environment.get(key) {
                Some(_) => ("", "variables of yours that the agent gets"),
                None => ("# ", "without this line an agent of relight up gets no key"),
            };
            format!(
                "name    = \"{name}\"\npreset  = \"{preset}\"\ncommand = [{}]\n\
                 restart = \"on-failure\"  # or \"always\", \"never\"\n\
                 {hash}env_pass = [\"{key}\"]  # {then}\n",
                words.join(", ")
            )
        }
    };
    format!(
        "# What `relight up` runs in this folder. Every key: relight setup config --print\n\n\
         [[agent]]\n{agent}\n\
         [recovery]\n\
         max_attempts = 3        # recoveries in a row without progress\n\
         cooldown     = \"60s\"    # before the second one; the first is at once\n\n\
         # [alert]\n\
         # command = [\"notify-send\", \"relight\"]  # gets each alert as JSON on standard input\n"
    )
}

/// Fails when it exists. Nobody else may write it: it says what is run. Half of it is not left there.
fn create(file: &Path, text: &str) -> io::Result<()> {
    let mut made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(file)?;
    let written = made.write_all(text.as_bytes());
    written.and_then(|()| made.sync_all()).inspect_err(|_| {
        let _ = std::fs::remove_file(file);
    })
}

fn is_installed(environment: &Environment, name: &str) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    let folders = environment.get("PATH").unwrap_or_default();
    folders
        .split(':')
        .filter(|folder| folder.starts_with('/'))
        .filter_map(|folder| std::fs::metadata(Path::new(folder).join(name)).ok())
        .any(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
