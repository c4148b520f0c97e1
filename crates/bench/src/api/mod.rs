//! `api`: what the daemon's HTTP side can do, beside axum alone and beside the library.
//!
//! The load is the same for product and floor, on one thread that does little else than to read and
//! write (`flood`); how much of a core it took is told with each figure.

mod beats;
mod daemon;
mod door;
mod flood;
mod page;
mod quiet;
mod shares;
mod under_load;
mod watchers;
mod writes;

use crate::row::Row;
use crate::stage::Stage;

use self::daemon::Daemon;

pub(crate) fn rows(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    // A thousand watchers, at both ends of their connections.
    relight_runtime::os::limits::raise_open_files();
    let mut rows = quiet::rows(stage)?;
    let daemon = Daemon::start(stage, &stage.subfolder("busy")?)?;
    rows.extend(beats::rows(stage, &daemon)?);
    rows.extend(writes::rows(stage, &daemon)?);
    drop(daemon);
    rows.extend(watchers::rows(stage)?);
    rows.extend(page::rows(stage)?);
    rows.extend(under_load::rows(stage)?);
    Ok(rows)
}
