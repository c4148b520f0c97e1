//! The name of an agent that was given none: what is run, not what runs it.

use std::ffi::OsString;
use std::path::Path;

/// The name of what a command runs: its script, module or tool where the program only interprets
/// that, else the program's own.
pub(crate) fn of(command: &[OsString]) -> String {
    let words: Vec<String> = command
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    name_of(&words)
}

/// How a program takes what it runs.
struct Interpreter {
    /// What it runs is a command of its own.
    is_wrapper: bool,
    /// Letters of options that are followed by code.
    code: &'static str,
    /// Options that are followed by a value.
    with_value: &'static [&'static str],
    /// Words before what it runs.
    passed_over: &'static [&'static str],
}

const PYTHON: Interpreter = interpreter("c", &["-W", "-X"], &[]);
const NODE: Interpreter = interpreter(
    "ep",
    &["-r", "--require", "--import", "--loader", "--env-file"],
    &[],
);
const BUN: Interpreter = interpreter("e", &["-r", "--preload", "--cwd"], &["run", "x"]);
const DENO: Interpreter = interpreter("", &["-c", "--config", "--import-map"], &["run"]);
const SHELL: Interpreter = interpreter("c", &["-o", "+o", "-O", "+O", "--rcfile"], &[]);
const RUBY: Interpreter = interpreter("e", &["-r", "-I", "-C"], &[]);
const PERL: Interpreter = interpreter("eE", &["-I", "-M"], &[]);
const PHP: Interpreter = interpreter("r", &["-d", "-c"], &[]);
const NPX: Interpreter = wrapper(&["-p", "--package"], &[]);
const UV: Interpreter = wrapper(
    &[
        "--with",
        "--with-requirements",
        "-p",
        "--python",
        "--project",
        "--directory",
        "--from",
    ],
    &["run", "tool"],
);
const ENV: Interpreter = wrapper(&["-u", "--unset", "-C", "--chdir"], &[]);

const fn interpreter(
    code: &'static str,
    with_value: &'static [&'static str],
    passed_over: &'static [&'static str],
) -> Interpreter {
    Interpreter {
        is_wrapper: false,
        code,
        with_value,
        passed_over,
    }
}

const fn wrapper(
    with_value: &'static [&'static str],
    passed_over: &'static [&'static str],
) -> Interpreter {
    Interpreter {
        is_wrapper: true,
        code: "",
        with_value,
        passed_over,
    }
}

impl Interpreter {
    fn of(program: &str) -> Option<&'static Self> {
        Some(match program {
            "node" | "nodejs" | "tsx" | "ts-node" => &NODE,
            "bun" => &BUN,
            "deno" => &DENO,
            "bash" | "sh" | "zsh" | "dash" | "ksh" => &SHELL,
            "ruby" => &RUBY,
            "perl" => &PERL,
            "php" => &PHP,
            "npx" | "bunx" => &NPX,
            "uv" | "uvx" => &UV,
            "env" => &ENV,
            _ if program.starts_with("python") || program.starts_with("pypy") => &PYTHON,
            _ => return None,
        })
    }

    fn takes_code(&self, option: &str) -> bool {
        let is_short = option.starts_with('-') && !option.starts_with("--");
        is_short && option.chars().any(|letter| self.code.contains(letter))
            || option == "--eval" && self.code.contains('e')
    }

    /// From what is run on; none when that is code, or nothing.
    fn inner<'a>(&self, arguments: &'a [String]) -> Option<&'a [String]> {
        let mut at = 0;
        while let Some(word) = arguments.get(at) {
            let is_variable = self.is_wrapper && word.contains('=') && !word.contains('/');
            at += match word.as_str() {
                "-m" | "-s" | "-S" => 1,
                option if self.with_value.contains(&option) => 2,
                option if self.takes_code(option) => return None,
                option if option.starts_with(['-', '+']) => 1,
                word if self.passed_over.contains(&word) || is_variable => 1,
                _ => return Some(&arguments[at..]),
            };
        }
        None
    }
}

fn name_of(words: &[String]) -> String {
    let mut words = words;
    loop {
        let Some((program, arguments)) = words.split_first() else {
            return String::new();
        };
        let program = file_name(program);
        let Some(interpreter) = Interpreter::of(&program) else {
            return program;
        };
        match interpreter.inner(arguments) {
            // Each time there are fewer words.
            Some(inner) if interpreter.is_wrapper => words = inner,
            Some(inner) => return file_name(&inner[0]),
            None => return program,
        }
    }
}

fn file_name(word: &str) -> String {
    Path::new(word)
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_run_gives_the_name_and_not_what_runs_it() {
        for (command, name) in [
            ("./agent.sh --fast x", "agent.sh"),
            ("claude -p hello", "claude"),
            ("python3 b.py", "b.py"),
            ("/usr/bin/python3.12 -u -W ignore src/b.py arg", "b.py"),
            ("python3 -m my.worker --x", "my.worker"),
            ("python3 -c code", "python3"),
            ("python3", "python3"),
            ("node --require ./hook.js app.mjs", "app.mjs"),
            ("node -e code", "node"),
            ("bun run agent.ts", "agent.ts"),
            ("deno run --allow-net agent.ts", "agent.ts"),
            ("bash -c code word", "bash"),
            ("bash -lc code", "bash"),
            ("bash -eu -o pipefail loop.sh", "loop.sh"),
            ("sh loop.sh -c x", "loop.sh"),
            ("ruby a.rb", "a.rb"),
            ("perl -e code", "perl"),
            ("php -r code", "php"),
            ("npx -y @openai/codex exec", "codex"),
            ("npx tsx agent.ts", "agent.ts"),
            ("uv run --with rich python b.py", "b.py"),
            ("uv run b.py", "b.py"),
            ("uvx aider --yes", "aider"),
            ("env -u X A=1 python3 b.py", "b.py"),
            ("env A=1 ./agent", "agent"),
        ] {
            let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
            assert_eq!(name_of(&words), name, "{command}");
        }
    }
}
