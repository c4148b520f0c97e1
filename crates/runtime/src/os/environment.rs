//! The environment at the start of the process.

use std::ffi::OsString;

/// All variables; values need not be UTF-8.
#[expect(clippy::disallowed_methods, reason = "this is the door")]
pub fn variables() -> Vec<(OsString, OsString)> {
    std::env::vars_os().collect()
}

/// The socket on which the agent's supervisor receives signs of life; none outside of an agent.
/// (`NOTIFY_SOCKET` alone may be systemd's.)
#[expect(clippy::disallowed_methods, reason = "this is the door")]
pub fn supervisors_socket() -> Option<String> {
    std::env::var_os("RELIGHT_ATTEMPT")?;
    std::env::var("NOTIFY_SOCKET").ok()
}

/// The variables whose name and value are UTF-8.
pub fn texts(variables: &[(OsString, OsString)]) -> impl Iterator<Item = (&str, &str)> {
    variables
        .iter()
        .filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)))
}
