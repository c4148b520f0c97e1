//! What tells whether a tool call happened, for calls whose outcome nobody knows.

use super::page::code;
use crate::step::Call;

/// Commands by what they begin with, and what shows their effect.
const COMMANDS: [(&str, &str); 22] = [
    ("git push", "check `git ls-remote`"),
    ("git commit", "check `git log -1` and `git status`"),
    ("git merge", "check `git status` and `git log -1`"),
    ("git rebase", "check `git status` and `git log -3`"),
    ("git tag", "check `git tag --list`"),
    ("git", "check `git status`"),
    ("gh pr create", "check `gh pr list --head BRANCH`"),
    ("gh issue create", "check `gh issue list`"),
    ("gh release", "check `gh release list`"),
    ("npm publish", "check `npm view PACKAGE version`"),
    ("cargo publish", "check `cargo info PACKAGE`"),
    ("docker push", "check `docker manifest inspect IMAGE`"),
    (
        "kubectl",
        "check `kubectl get` and `kubectl rollout status`",
    ),
    ("helm", "check `helm status RELEASE`"),
    ("terraform", "check `terraform plan`"),
    ("curl", "ask the service what it has"),
    ("rm", "check with `ls`"),
    ("mv", "check with `ls`"),
    ("cp", "check with `ls`"),
    ("mkdir", "check with `ls`"),
    ("relight step", "check `relight step list`"),
    ("relight task", "check `relight task show`"),
];

/// What to do before a call is repeated. The last command of a chain that is known counts.
pub(super) fn before_repeating(call: &Call) -> String {
    if let Some(file) = &call.file {
        return format!("compare {}", code(&file.path));
    }
    let parts = call.arguments.split(['&', ';', '|']).map(str::trim_start);
    let known = |part: &str| {
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
