//! The environment, as it was when the process began.

use std::ffi::OsString;

/// Every variable, with values that need not be text.
#[expect(clippy::disallowed_methods, reason = "this is the door")]
pub fn variables() -> Vec<(OsString, OsString)> {
    std::env::vars_os().collect()
}

/// Where the supervisor of the agent that this process runs in hears signs of life; none outside of an
/// agent. (`NOTIFY_SOCKET` alone may be that of systemd.)
#[expect(clippy::disallowed_methods, reason = "this is the door")]
pub fn supervisors_socket() -> Option<String> {
    std::env::var_os("RELIGHT_ATTEMPT")?;
    std::env::var("NOTIFY_SOCKET").ok()
}

/// Those whose name and value are text.
pub fn texts(variables: &[(OsString, OsString)]) -> impl Iterator<Item = (&str, &str)> {
    variables.iter().filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)))
}
