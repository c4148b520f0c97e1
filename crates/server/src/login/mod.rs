//! How a browser logs in: a one-time code, which whoever may use the socket asks for, becomes a visit
//! with a cookie that no script can read and a header that only a page of ours knows.

mod codes;
mod visits;

pub(crate) use codes::{Codes, GOOD_FOR};
pub(crate) use visits::{AGE_MAX, Begun, Visits, hash};
