//! A program's argument, or a variable's name or value: any bytes, written as text where they are.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use serde::{Deserialize, Serialize};

/// One argument, name or value.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Word {
    /// The usual case.
    Text(String),
    /// Not UTF-8.
    Bytes(Vec<u8>),
}

impl Word {
    /// As the system takes it.
    pub fn as_os_str(&self) -> &OsStr {
        match self {
            Self::Text(text) => OsStr::new(text),
            Self::Bytes(bytes) => OsStr::from_bytes(bytes),
        }
    }

    /// For people to read.
    pub fn to_text(&self) -> String {
        self.as_os_str().to_string_lossy().into_owned()
    }
}

impl From<OsString> for Word {
    fn from(word: OsString) -> Self {
        match word.into_string() {
            Ok(text) => Self::Text(text),
            Err(word) => Self::Bytes(word.into_vec()),
        }
    }
}

impl From<&OsStr> for Word {
    fn from(word: &OsStr) -> Self {
        word.to_owned().into()
    }
}

impl From<&str> for Word {
    fn from(word: &str) -> Self {
        Self::Text(word.to_owned())
    }
}

impl From<String> for Word {
    fn from(word: String) -> Self {
        Self::Text(word)
    }
}

impl std::fmt::Debug for Word {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_os_str().fmt(f)
    }
}
