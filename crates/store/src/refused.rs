//! Errors of a store in the form that every front shows.

use relight_core::error_code::{ErrorCode, Refused, with_causes};

use crate::contract::StoreError;

/// What helps where this user may not write.
pub const A_HOME_OF_YOUR_OWN: &str = "set RELIGHT_HOME or give --home DIR, a folder of your own";

impl From<StoreError> for Refused {
    fn from(error: StoreError) -> Self {
        let (code, hint) = match &error {
            StoreError::Io { source, .. } if is_a_matter_of_rights(source.as_ref()) => {
                (ErrorCode::IO, Some(A_HOME_OF_YOUR_OWN))
            }
            StoreError::Io { .. } => {
                let hint = "nothing was saved; make room or repair the folder, then try again";
                (ErrorCode::IO, Some(hint))
            }
            StoreError::Damaged { .. } => {
                let hint = "relight doctor --salvage copies what can be read into a new store";
                (ErrorCode::INVALID_DATA, Some(hint))
            }
            StoreError::Newer { .. } => {
                let hint = "use the version of relight that wrote it, or a later one";
                (ErrorCode::INVALID_DATA, Some(hint))
            }
            StoreError::Busy { .. } => (ErrorCode::FULL, Some("try again")),
            StoreError::Replaced { .. } => (ErrorCode::IO, Some(StoreError::REPLACED_HINT)),
            StoreError::HalfCopied { .. } => {
                let hint = "wait until relight store copy is done; the same command continues it";
                (ErrorCode::FULL, Some(hint))
            }
            StoreError::Unreachable { .. } => (ErrorCode::UNREACHABLE, None),
            StoreError::Unsuitable { .. } => (ErrorCode::CONFIG, None),
        };
        Self {
            hint: hint.map(str::to_owned),
            ..Self::without_hint(code, with_causes(&error))
        }
    }
}

/// Whether the system said that this user may not.
pub fn is_a_matter_of_rights(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let kind = error
            .downcast_ref::<std::io::Error>()
            .map(std::io::Error::kind);
        if kind == Some(std::io::ErrorKind::PermissionDenied) {
            return true;
        }
        cause = error.source();
    }
    false
}
