//! How a browser logs in: a one-time code, which whoever may use the socket asks for, becomes a visit
//! with a cookie that no script can read and a header that only a page of ours knows.

use std::net::SocketAddr;

mod codes;
mod visits;

pub(crate) use codes::{Codes, GOOD_FOR};
pub(crate) use visits::{AGE_MAX, Visits};

/// The cookie's name. Cookies know no ports: without the port in its name, logging in to one daemon of
/// this machine would log out of another.
pub(crate) fn cookie_name(address: Option<SocketAddr>) -> String {
    format!("relight_{}", address.map_or(0, |address| address.port()))
}
