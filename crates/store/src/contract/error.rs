//! Errors of a store.

use std::sync::Arc;

use relight_core::error_code::with_causes;
use serde::{Deserialize, Serialize};

/// Why a store cannot be used. Nothing was acknowledged.
#[derive(Debug, Clone, thiserror::Error, Serialize, Deserialize)]
pub enum StoreError {
    /// Reading or writing failed.
    #[error("cannot write or read the store {place}")]
    Io {
        /// The store.
        place: String,
        /// The system's error.
        #[source]
        #[serde(with = "cause")]
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// Not a Relight store, or corrupted.
    #[error("the store {place} is damaged: {what}")]
    Damaged {
        /// The store.
        place: String,
        /// What is wrong.
        what: String,
    },
    /// Written by a newer version.
    #[error("the store {place} has schema {found}, this version knows up to {known}")]
    Newer {
        /// The store.
        place: String,
        /// The store's schema number.
        found: u32,
        /// The newest schema number that this version knows.
        known: u32,
    },
    /// Locked by others for too long.
    #[error("the store {place} is busy")]
    Busy {
        /// The store.
        place: String,
    },
    /// It does not exist or does not answer.
    #[error("the store {place} cannot be reached: {why}")]
    Unreachable {
        /// The store.
        place: String,
        /// Why.
        why: String,
    },
    /// A copy into it is not finished, so its content is incomplete.
    #[error("the store {place} is half copied from {from}")]
    HalfCopied {
        /// The store.
        place: String,
        /// The source of the copy.
        from: String,
    },
    /// Its files were removed or replaced while open.
    #[error("the files of the store {place} were removed or replaced while they were in use")]
    Replaced {
        /// The store.
        place: String,
    },
    /// Reachable, but not usable with these settings.
    #[error("the store {place} cannot be used: {why}")]
    Unsuitable {
        /// The store.
        place: String,
        /// Why.
        why: String,
    },
}

impl StoreError {
    /// What to do about files that were removed or replaced.
    pub const REPLACED_HINT: &str = "nothing was saved; move the files back, or restart what uses \
                                     them (relight down, then relight up)";

    /// The same error with another name for the store, for readers that must not see its location.
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

/// Serializes a cause as its text, including its sources.
mod cause {
    use std::error::Error;
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        cause: &Arc<dyn Error + Send + Sync>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.serialize_str(&super::with_causes(cause.as_ref()))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Arc<dyn Error + Send + Sync>, D::Error> {
        let text = String::deserialize(from)?;
        Ok(Arc::from(Box::<dyn Error + Send + Sync>::from(text)))
    }
}
