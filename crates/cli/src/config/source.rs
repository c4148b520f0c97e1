//! Which file is the configuration, and who could have written it.
//!
//! A file that somebody named is taken as it is. One that merely lies in the working folder may be a
//! stranger's: it counts only when nobody but its reader and root can write it.

use std::io;
use std::path::{Path, PathBuf};

use relight_runtime::os::file::{self, Stranger};
use relight_runtime::project::nearest_config;

use super::FILE_BYTES_MAX;
use crate::exit::{Exit, Failure};

pub(crate) use relight_runtime::project::CONFIG_FILE as FILE_NAME;

/// A file to read, and how it was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) file: PathBuf,
    /// Nobody named it: it was found in the working folder or above.
    pub(crate) is_found_here: bool,
}

/// What was read of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) source: Source,
    pub(crate) text: String,
    stranger: Option<Stranger>,
}

/// Which content of which file a configuration stands on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) source: Source,
    /// Of the content, in hexadecimal.
    pub(crate) hash: String,
}

impl Source {
    /// One that somebody named.
    pub(crate) fn named(file: impl Into<PathBuf>) -> Self {
        Self {
            file: file.into(),
            is_found_here: false,
        }
    }

    /// The file to read: the given one, else the nearest `relight.toml` here or above, else the user's.
    pub(crate) fn find(given: Option<&Path>, here: &Path, user: Option<&Path>) -> Option<Self> {
        if let Some(given) = given {
            return Some(Self::named(given));
        }
        let users = user.map(|folder| folder.join("relight").join(FILE_NAME));
        let Some(found) = nearest_config(here) else {
            return users.filter(|file| file.exists()).map(Self::named);
        };
        let is_the_users = users.is_some_and(|users| is_same(&found, &users));
        Some(Self {
            file: found,
            is_found_here: !is_the_users,
        })
    }

    /// Reads it. What is not a regular file is an error, and is not waited for.
    pub(crate) fn read(&self) -> io::Result<Content> {
        let opened = file::open_regular(&self.file)?;
        // Of the open file: the name may lead to another one a moment later.
        let stranger = match self.is_found_here {
            true => file::stranger(&opened.metadata()?).or(stranger_of_link(&self.file)),
            false => None,
        };
        let text = file::read_text(opened, FILE_BYTES_MAX)?;
        Ok(Content {
            source: self.clone(),
            text,
            stranger,
        })
    }
}

impl Content {
    /// Refuses a file of the working folder that others can write.
    pub(crate) fn refuse_stranger(&self) -> Result<(), Failure> {
        let Some(stranger) = self.stranger else {
            return Ok(());
        };
        let file = self.source.file.display();
        let failure = Failure::new(Exit::Config, format!("{file} is refused: {stranger}"));
        let name_it = format!("name it: --config {file}, or RELIGHT_CONFIG={file}");
        Err(match stranger {
            Stranger::Owner(_) => failure.hint(name_it),
            Stranger::Group(_) | Stranger::Everybody => {
                failure.hint(format!("chmod go-w {file}; or {name_it}"))
            }
        })
    }

    pub(crate) fn origin(&self) -> Origin {
        let hash = blake3::hash(self.text.as_bytes()).to_hex().to_string();
        Origin {
            source: self.source.clone(),
            hash,
        }
    }
}

/// Who could lead a link elsewhere: its owner.
fn stranger_of_link(file: &Path) -> Option<Stranger> {
    use std::os::unix::fs::MetadataExt as _;
    let link = std::fs::symlink_metadata(file)
        .ok()
        .filter(std::fs::Metadata::is_symlink)?;
    let is_ours = link.uid() == 0 || link.uid() == rustix::process::geteuid().as_raw();
    (!is_ours).then(|| Stranger::Owner(link.uid()))
}

fn is_same(one: &Path, other: &Path) -> bool {
    one.canonicalize()
        .is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}
