//! The children of a fake agent: plain ones, and grandchildren in sessions of their own.

use anyhow::Context as _;
use relight_runtime::os::process;

use super::options::{Options, Role};
use super::places::Places;

/// Starts what the flags ask for. They inherit everything, as careless programs let them.
pub(super) fn start(options: &Options) -> anyhow::Result<()> {
    for _ in 0..options.children {
        spawn(options, Role::Child)?;
    }
    for _ in 0..options.grandchildren {
        spawn(options, Role::Launcher)?.wait()?;
    }
    Ok(())
}

/// The middle of a double fork: leaves session and group, starts a child, is gone.
pub(super) fn launch(options: &Options) -> anyhow::Result<()> {
    rustix::process::setsid().context("setsid")?;
    spawn(options, Role::Child)?;
    Ok(())
}

/// Lives, marked as alive, until somebody ends it.
pub(super) fn live(options: &Options, places: &Places, number: u32) -> anyhow::Result<u8> {
    let _mark = places.mark(&options.name, number)?;
    loop {
        rustix::event::pause();
    }
}

fn spawn(options: &Options, role: Role) -> anyhow::Result<std::process::Child> {
    let me = std::env::current_exe().context("own path")?;
    let folder = options.folder.display().to_string();
    let words = [
        "--role",
        role.as_str(),
        "--folder",
        &folder,
        "--name",
        &options.name,
    ];
    process::command(me, &words)
        .spawn()
        .context("cannot start a child")
}
