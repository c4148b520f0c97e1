//! What is to be run, how often, on what: the same for every scheduler.

use std::path::{Path, PathBuf};

use relight_core::time::Span;
use relight_runtime::store_url::StoreUrl;

use crate::arguments::other::{InstallCheckArguments, InstallDaemonArguments, Scheduled};
use crate::environment::Environment;
use crate::exit::{Exit, Failure};

/// A more frequent look finds nothing more.
const EVERY_MIN: Span = Span::from_secs(60);

/// One command that the host runs.
#[derive(Debug)]
pub(super) struct Plan {
    /// The binary, absolute.
    pub(super) program: String,
    pub(super) arguments: Vec<String>,
    /// Variables that the scheduler would not have.
    pub(super) variables: Vec<(&'static str, String)>,
    pub(super) job: ServiceJob,
}

/// What the command is for.
#[derive(Debug)]
pub(super) enum ServiceJob {
    /// A look now and then.
    Check {
        /// Whole seconds.
        every: Span,
        /// Where findings are kept.
        log: String,
    },
    /// Always there.
    Daemon {
        /// The folder that it runs in: its configuration's.
        folder: Option<String>,
        /// Where its agents' secrets may be, by name and value.
        secrets: String,
    },
}

impl Plan {
    pub(super) fn check(
        environment: &Environment,
        given: &InstallCheckArguments,
    ) -> Result<Self, Failure> {
        if given.every < EVERY_MIN || !given.every.as_ms().is_multiple_of(1_000) {
            return Err(Failure::new(
                Exit::Usage,
                "--every takes whole seconds, at least 1m",
            ));
        }
        let home = absolute(&environment.home()?)?;
        let log = text(&home.join("check.log"))?;
        let mut arguments = vec![
            "check".to_owned(),
            "--stale".to_owned(),
            written(given.stale),
        ];
        for root in roots(&given.roots)? {
            arguments.extend(["--root".to_owned(), root]);
        }
        arguments.extend(["--log".to_owned(), log.clone()]);
        let mut variables = variables(environment, &home)?;
        variables.extend(store_of_check(environment, &home)?);
        let job = ServiceJob::Check {
            every: given.every,
            log,
        };
        Ok(Self {
            program: program()?,
            arguments,
            variables,
            job,
        })
    }

    pub(super) fn daemon(
        environment: &Environment,
        given: &InstallDaemonArguments,
    ) -> Result<Self, Failure> {
        let home = absolute(&environment.home()?)?;
        let mut variables = variables(environment, &home)?;
        // What its configuration says of the store it reads by itself.
        if environment.named_store().is_some() {
            variables.extend(store_variable(environment.store_url()?, &home)?);
        }
        // Agents are looked for where the person who installs it would find them.
        if let Some(path) = environment.get("PATH") {
            variables.push(("PATH", text(Path::new(path))?));
        }
        let mut arguments = vec!["up".to_owned()];
        let config = config(given.config.as_deref())?;
        if let Some(config) = &config {
            arguments.extend(["--config".to_owned(), text(config)?]);
        }
        let folder = config
            .as_deref()
            .and_then(Path::parent)
            .map(text)
            .transpose()?;
        let secrets = text(&environment.config_home()?.join("relight/daemon.env"))?;
        Ok(Self {
            program: program()?,
            arguments,
            variables,
            job: ServiceJob::Daemon { folder, secrets },
        })
    }

    pub(super) fn what(&self) -> Scheduled {
        match self.job {
            ServiceJob::Check { .. } => Scheduled::Check,
            ServiceJob::Daemon { .. } => Scheduled::Daemon,
        }
    }

    /// The program and its arguments.
    pub(super) fn words(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.program.as_str()).chain(self.arguments.iter().map(String::as_str))
    }
}

/// The present binary, as long as it is still there.
fn program() -> Result<String, Failure> {
    let path = std::env::current_exe().ok().filter(|path| path.is_file());
    let path = path.ok_or_else(|| {
        Failure::new(
            Exit::Io,
            "cannot tell where this relight is; it was moved or replaced",
        )
        .hint("run it again from where it is now")
    })?;
    text(&path)
}

/// The named configuration, else the one in this folder: the daemon will run in another one.
fn config(given: Option<&Path>) -> Result<Option<PathBuf>, Failure> {
    let path = absolute(given.unwrap_or(Path::new("relight.toml")))?;
    match (path.is_file(), given) {
        (true, _) => Ok(Some(path)),
        (false, None) => Ok(None),
        (false, Some(_)) => {
            let what = format!("--config {}: there is no such file", path.display());
            Err(Failure::new(Exit::Usage, what))
        }
    }
}

fn roots(given: &[PathBuf]) -> Result<Vec<String>, Failure> {
    let here = [PathBuf::from(".")];
    let given = if given.is_empty() { &here[..] } else { given };
    let mut found = Vec::new();
    for root in given {
        let root = absolute(root)?;
        if !root.is_dir() {
            let what = format!("--root {}: there is no such folder", root.display());
            return Err(Failure::new(Exit::Usage, what));
        }
        found.push(text(&root)?);
    }
    Ok(found)
}

/// A scheduler has the user's `HOME` and little else.
fn variables(
    environment: &Environment,
    home: &Path,
) -> Result<Vec<(&'static str, String)>, Failure> {
    let mut variables = Vec::new();
    let usual = environment
        .get("HOME")
        .map(|user| Path::new(user).join(".local/state/relight"));
    if usual.as_deref() != Some(home) {
        variables.push(("RELIGHT_HOME", text(home)?));
    }
    Ok(variables)
}

/// A check runs elsewhere: it finds the user's configuration and what is in the home, but no file of this
/// folder.
fn store_of_check(
    environment: &Environment,
    home: &Path,
) -> Result<Option<(&'static str, String)>, Failure> {
    if environment.named_store().is_none() && environment.relay().is_some() {
        return Ok(None);
    }
    let url = environment.store_url()?;
    let is_found_there = environment.named_store().is_none()
        && (environment.node()?.is_some() || is_the_users_configuration(environment));
    match url {
        StoreUrl::Postgres(_) if is_found_there => Ok(None),
        url => store_variable(url, home),
    }
}

fn is_the_users_configuration(environment: &Environment) -> bool {
    let folder = environment
        .config_file(None)
        .and_then(|source| Some(source.file.parent()?.to_path_buf()));
    folder.is_some() && folder == environment.config_folder()
}

/// The variable by which another process finds this store; none where it does so without.
fn store_variable(url: StoreUrl, home: &Path) -> Result<Option<(&'static str, String)>, Failure> {
    match url {
        StoreUrl::Sqlite(path) => {
            let path = absolute(&path)?;
            let is_usual = path == home.join("relight.db");
            let url = format!("sqlite:{}", text(&path)?);
            Ok((!is_usual).then_some(("RELIGHT_STORE", url)))
        }
        StoreUrl::Postgres(_) => {
            let text = "the address of a PostgreSQL store may hold a password, which does not belong \
                        into a service";
            Err(Failure::new(Exit::Config, text).hint(
                "name it by `url` under [store] in ~/.config/relight/relight.toml, readable by you alone",
            ))
        }
        StoreUrl::Memory => Err(Failure::new(
            Exit::Config,
            "a store in memory is gone before anything is run",
        )),
    }
}

fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    let found = std::path::absolute(path)
        .map_err(|error| Failure::new(Exit::Usage, format!("{}: {error}", path.display())))?;
    // `absolute` keeps the dot of `./x/.`, which nobody wants to read in a unit.
    Ok(found.components().collect())
}

/// A path that can stand in one line of a file.
fn text(path: &Path) -> Result<String, Failure> {
    let text = path
        .to_str()
        .filter(|text| !text.contains(char::is_control));
    text.map(str::to_owned).ok_or_else(|| {
        let what = format!("{path:?} cannot be written into a schedule");
        Failure::new(Exit::Usage, what).hint("use a path in UTF-8 without control characters")
    })
}

/// Exactly, in the largest unit that fits; what people are shown is rounded.
fn written(span: Span) -> String {
    let ms = span.as_ms();
    let units = [
        ("d", 86_400_000),
        ("h", 3_600_000),
        ("m", 60_000),
        ("s", 1_000),
    ];
    match units
        .into_iter()
        .find(|(_, unit)| ms > 0 && ms.is_multiple_of(*unit))
    {
        Some((name, unit)) => format!("{}{name}", ms / unit),
        None => format!("{ms}ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_exactly() {
        for text in ["90s", "10m", "7d", "90m", "1500ms", "0ms"] {
            let span: Span = text.parse().unwrap();
            assert_eq!(written(span), text);
        }
        assert_eq!(written("60s".parse().unwrap()), "1m");
    }
}
