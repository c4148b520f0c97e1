//! How a browser logs in. A caller of the socket asks for a one-time code, and the code becomes a
//! browser session: a cookie that no script can read and a header that only our pages know.

mod browser_sessions;
mod codes;

pub(crate) use browser_sessions::{AGE_MAX, Begun, BrowserSessions, hash};
pub(crate) use codes::{Codes, GOOD_FOR};
