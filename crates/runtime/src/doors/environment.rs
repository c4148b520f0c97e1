//! The environment, as it was when the process began.

/// Every variable whose name and value are text.
#[expect(clippy::disallowed_methods, reason = "this is the door")]
pub fn variables() -> Vec<(String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}
