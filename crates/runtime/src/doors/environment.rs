//! The environment, as it was when the process began.

use std::ffi::OsString;

/// Every variable, with values that need not be text.
#[expect(clippy::disallowed_methods, reason = "this is the door")]
pub fn variables() -> Vec<(OsString, OsString)> {
    std::env::vars_os().collect()
}

/// Those whose name and value are text.
pub fn texts(variables: &[(OsString, OsString)]) -> impl Iterator<Item = (&str, &str)> {
    variables.iter().filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)))
}
