//! What tells whether a tool call happened, for calls whose outcome nobody knows.

use super::page::code;
use crate::step::Call;

/// Commands by what they begin with, and what shows their effect.
const COMMANDS: [(&str, &str); 54] = [
    ("git push", "check `git ls-remote`"),
    ("git commit", "check `git log -1` and `git status`"),
    ("git merge", "check `git status` and `git log -1`"),
    ("git rebase", "check `git status` and `git log -3`"),
    ("git tag", "check `git tag --list`"),
    ("git", "check `git status`"),
    ("gh pr create", "check `gh pr list --head BRANCH`"),
    ("gh pr", "check `gh pr view`"),
    ("gh issue create", "check `gh issue list`"),
    ("gh issue", "check `gh issue view`"),
    ("gh release", "check `gh release list`"),
    ("gh workflow run", "check `gh run list`"),
    ("glab mr create", "check `glab mr list`"),
    ("npm publish", "check `npm view PACKAGE version`"),
    ("pnpm publish", "check `npm view PACKAGE version`"),
    ("yarn publish", "check `npm view PACKAGE version`"),
    ("yarn npm publish", "check `npm view PACKAGE version`"),
    ("cargo publish", "check `cargo info PACKAGE`"),
    ("twine upload", "check `pip index versions PACKAGE`"),
    ("uv publish", "check `pip index versions PACKAGE`"),
    ("docker push", "check `docker manifest inspect IMAGE`"),
    ("podman push", "check `skopeo inspect docker://IMAGE`"),
    ("docker run", "check `docker ps -a`"),
    ("docker compose", "check `docker compose ps`"),
    (
        "kubectl",
        "check `kubectl get` and `kubectl rollout status`",
    ),
    ("helm", "check `helm status RELEASE`"),
    ("terraform", "check `terraform plan`"),
    ("tofu", "check `tofu plan`"),
    ("pulumi", "check `pulumi preview`"),
    ("ansible-playbook", "check with `--check --diff`"),
    ("aws s3", "check `aws s3 ls`"),
    ("aws", "ask `aws` what is there (`describe`, `list`)"),
    ("gcloud", "ask `gcloud` what is there (`describe`, `list`)"),
    ("az", "ask `az` what is there (`show`, `list`)"),
    ("psql", "ask the database what it has"),
    ("mysql", "ask the database what it has"),
    ("sqlite3", "ask the database what it has"),
    ("curl", "ask the service what it has"),
    ("wget", "check with `ls`, or ask the service what it has"),
    ("http", "ask the service what it has"),
    ("scp", "check the files at the target"),
    ("rsync", "check with `rsync --dry-run`"),
    ("ssh", "look on that machine"),
    ("systemctl", "check `systemctl status`"),
    ("npm install", "check `npm ls`"),
    ("pip install", "check `pip list`"),
    ("apt-get", "check `dpkg -l`"),
    ("apt", "check `dpkg -l`"),
    ("rm", "check with `ls`"),
    ("mv", "check with `ls`"),
    ("cp", "check with `ls`"),
    ("mkdir", "check with `ls`"),
    ("relight step", "check `relight step list`"),
    ("relight task", "check `relight task show`"),
];

/// Commands that only start another one.
const STARTERS: [&str; 9] = [
    "sudo", "env", "nohup", "time", "command", "exec", "npx", "timeout", "nice",
];

/// What to do before a call is repeated. The last command of a chain that is known counts.
pub(super) fn before_repeating(call: &Call) -> String {
    if let Some(file) = &call.file {
        return format!("compare {}", code(&file.path));
    }
    let parts = within_shell(&call.arguments)
        .split(['&', ';', '|'])
        .map(str::trim_start);
    let known = |part: &str| {
        let part = without_starters(part);
        let begins = |with: &str| {
            let rest = part.strip_prefix(with);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        };
        COMMANDS
            .iter()
            .find(|(command, _)| begins(command))
            .map(|(_, check)| *check)
    };
    let check = parts.filter_map(known).next_back();
    check.unwrap_or("find out whether it happened").to_owned()
}

/// What `bash -lc '…'` and the like are given.
fn within_shell(command: &str) -> &str {
    let shells = [
        "bash -lc ",
        "bash -c ",
        "sh -c ",
        "zsh -lc ",
        "/bin/bash -lc ",
        "/bin/sh -c ",
    ];
    let given = shells.iter().find_map(|shell| command.strip_prefix(shell));
    given.map_or(command, |given| given.trim_matches(['\'', '"']))
}

/// Without what stands before the command itself: variables, `sudo` and the like with their options, and the
/// options of `git` that stand before its own command.
fn without_starters(part: &str) -> String {
    let mut words = part.split_whitespace().peekable();
    let mut is_started = false;
    while let Some(word) = words.peek() {
        let is_variable = word.contains('=') && !word.starts_with('-');
        let is_starter = STARTERS.contains(word);
        // Options of `sudo`, and the time of `timeout`.
        let is_its =
            is_started && (word.starts_with('-') || word.starts_with(|c: char| c.is_ascii_digit()));
        if !(is_variable || is_starter || is_its) {
            break;
        }
        is_started |= is_starter;
        words.next();
    }
    let mut kept: Vec<&str> = words.collect();
    if kept.first() == Some(&"git") {
        while let Some(option) = kept.get(1).filter(|word| word.starts_with('-')) {
            let has_value = matches!(*option, "-C" | "-c");
            kept.drain(1..(2 + usize::from(has_value)).min(kept.len()));
        }
    }
    kept.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_to_check_is_said_for_common_commands() {
        let check = |arguments: &str| {
            before_repeating(&Call {
                tool: "Bash".to_owned(),
                arguments: arguments.to_owned(),
                file: None,
            })
        };
        for (command, check_first) in [
            ("git push origin main", "check `git ls-remote`"),
            (
                "git add -A && git commit -m 'x' && git push",
                "check `git ls-remote`",
            ),
            ("git -C sub -c a.b=c push", "check `git ls-remote`"),
            (
                "GIT_TRACE=1 sudo -E timeout 60 git push",
                "check `git ls-remote`",
            ),
            ("bash -lc 'git push'", "check `git ls-remote`"),
            (
                "cd app; npm publish --access public",
                "check `npm view PACKAGE version`",
            ),
            ("gh pr create --fill", "check `gh pr list --head BRANCH`"),
            ("gh pr merge 7", "check `gh pr view`"),
            (
                "kubectl apply -f x.yaml",
                "check `kubectl get` and `kubectl rollout status`",
            ),
            ("terraform apply -auto-approve", "check `terraform plan`"),
            ("docker push a/b:1", "check `docker manifest inspect IMAGE`"),
            (
                "curl -X POST https://example.org/orders",
                "ask the service what it has",
            ),
            ("twine upload dist/*", "check `pip index versions PACKAGE`"),
            (
                "git commit -m 'git push comes later'",
                "check `git log -1` and `git status`",
            ),
            ("./deploy.sh", "find out whether it happened"),
            ("gitk", "find out whether it happened"),
        ] {
            assert_eq!(check(command), check_first, "{command}");
        }
    }
}
