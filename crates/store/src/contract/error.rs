//! What can be wrong with a store.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// What can be wrong with a store as a whole. Nothing was acknowledged.
#[derive(Debug, Clone, thiserror::Error, Serialize, Deserialize)]
pub enum StoreError {
    /// The disk or the file system said no.
    #[error("cannot write or read the store {place}")]
    Io {
        /// Which store.
        place: String,
        /// What the system said.
        #[source]
        #[serde(with = "cause")]
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// Not a store of ours, or not whole.
    #[error("the store {place} is damaged: {what}")]
    Damaged {
        /// Which store.
        place: String,
        /// What was found.
        what: String,
    },
    /// Written by a later version.
    #[error("the store {place} has schema {found}, this version knows up to {known}")]
    Newer {
        /// Which store.
        place: String,
        /// Its schema.
        found: u32,
        /// Ours.
        known: u32,
    },
    /// Others kept it locked for too long.
    #[error("the store {place} is busy")]
    Busy {
        /// Which store.
        place: String,
    },
    /// Not there, or no answer.
    #[error("the store {place} cannot be reached: {why}")]
    Unreachable {
        /// Which store.
        place: String,
        /// Why.
        why: String,
    },
    /// Another store is being copied into it: what is there is not all.
    #[error("the store {place} is half copied from {from}")]
    HalfCopied {
        /// Which store.
        place: String,
        /// From where.
        from: String,
    },
    /// Its files were removed, or others were put in their place, while they were open.
    #[error("the files of the store {place} were removed or replaced while they were in use")]
    Replaced {
        /// Which store.
        place: String,
    },
    /// It can be reached, but must not be used so.
    #[error("the store {place} cannot be used: {why}")]
    Unsuitable {
        /// Which store.
        place: String,
        /// Why.
        why: String,
    },
}

impl StoreError {
    /// The same of a store that is called so: for whoever is not told where it is.
    #[must_use]
    pub fn called(mut self, name: &str) -> Self {
        match &mut self {
            Self::Io { place, .. }
            | Self::Damaged { place, .. }
            | Self::Newer { place, .. }
            | Self::Busy { place }
            | Self::Replaced { place }
            | Self::Unreachable { place, .. }
            | Self::Unsuitable { place, .. } => name.clone_into(place),
            Self::HalfCopied { place, from } => {
                name.clone_into(place);
                "another store".clone_into(from);
            }
        }
        self
    }
}

/// A cause as JSON has it: its text, with the causes behind it.
mod cause {
    use std::error::Error;
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        cause: &Arc<dyn Error + Send + Sync>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        let mut text = cause.to_string();
        let mut next = cause.source();
        while let Some(behind) = next {
            text += &format!(": {behind}");
            next = behind.source();
        }
        to.serialize_str(&text)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Arc<dyn Error + Send + Sync>, D::Error> {
        let text = String::deserialize(from)?;
        Ok(Arc::from(Box::<dyn Error + Send + Sync>::from(text)))
    }
}
