//! What a successor is given: its brief, `active_state.json`, and the files that git calls changed.
//!
//! Acts; what the texts say is `core::agent::brief` and `core::agent::active_state`.

mod current;
mod dirty;
mod file;

mod refresh;
#[cfg(test)]
mod tests;
mod user_copy;

pub use current::{BriefSubject, Unfinished, current_brief, unfinished};
pub use dirty::{Asker, dirty_files};
pub use file::{complete_brief, sweep, write_anew, write_brief, write_state};

pub use refresh::{RefreshError, refresh_state, task_state_file, write_task_state};
pub use user_copy::{copy_for_user, user_folder};
