//! A sign of life of a supervised agent: one datagram, without opening the store.

use std::io;

use relight_core::error_code::{ErrorCode, Refused};
use relight_core::time::Moment;
use relight_runtime::os::{clock, environment};
use relight_runtime::supervise::notify::{self, NotifySign};

use crate::open::invalid;

/// Tells the supervisor of this agent, at `$NOTIFY_SOCKET`, that it lives. False where nobody supervises
/// this process.
pub fn beat(waiting_until: Option<&str>, status: Option<&str>) -> Result<bool, Refused> {
    let variables = environment::variables();
    let found = variables.iter().find(|(name, _)| name == "NOTIFY_SOCKET");
    let Some(address) = found.and_then(|(_, value)| value.to_str()) else {
        return Ok(false);
    };
    let mut signs = vec![NotifySign::Alive];
    if let Some(text) = waiting_until {
        let moment: Moment = text.parse().map_err(invalid)?;
        let until = moment.after(clock::now()).map_err(invalid)?;
        signs.push(NotifySign::WaitingUntil(until));
    }
    signs.extend(status.map(|text| NotifySign::Status(text.to_owned())));
    match notify::send(address, &signs) {
        Ok(()) => Ok(true),
        Err(error) => Err(not_heard(address, &error)),
    }
}

fn not_heard(address: &str, error: &io::Error) -> Refused {
    let text = format!("nobody hears signs of life at {address}: {error}");
    let hint = "relight ps says who supervises what; relight up or run adopts it";
    Refused::new(ErrorCode::FULL, text, hint)
}
