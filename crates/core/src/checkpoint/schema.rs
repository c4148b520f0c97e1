//! The version of the checkpoint document.

use std::fmt;

use serde::{Serialize, Serializer};

use super::envelope::Damage;
use super::strict::excerpt;

/// `schemaVersion`: always major 1; a newer minor adds fields and changes none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SchemaVersion {
    /// The part after the dot.
    pub minor: u32,
}

impl SchemaVersion {
    /// The only major version this code understands.
    pub const MAJOR: u32 = 1;

    /// Reads `"1.x"`; a later major is [`Damage::NewerSchema`], all else [`Damage::WrongSchema`].
    pub(super) fn read(text: &str) -> Result<Self, Damage> {
        match split(text) {
            Some((Self::MAJOR, minor)) => Ok(SchemaVersion { minor }),
            Some((major, _)) if major > Self::MAJOR => Err(Damage::NewerSchema {
                found: excerpt(text),
            }),
            Some(_) | None => Err(Damage::WrongSchema {
                found: excerpt(text),
            }),
        }
    }
}

/// Only the one spelling that [`SchemaVersion`] itself writes: no sign, no leading zero.
fn split(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once('.')?;
    let (major, minor) = (major.parse().ok()?, minor.parse().ok()?);
    (format!("{major}.{minor}") == text).then_some((major, minor))
}

impl fmt::Display for SchemaVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", Self::MAJOR, self.minor)
    }
}

impl Serialize for SchemaVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
