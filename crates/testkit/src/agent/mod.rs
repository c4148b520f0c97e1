//! A fake agent: a program that works, forks, falls silent or dies as its flags say, and leaves its own
//! record of its life, so that nobody has to believe the supervisor.
//!
//! It has no way to ignore signals by itself; `sh -c "trap '' TERM; exec …"` before it does that.

mod life;
mod lines;
mod options;
mod places;
mod tree;

pub use life::run;
pub use lines::{Line, ReadLine, line_text, parse_line};
pub use options::{Options, Role};
pub use places::{Birth, LiveMark, Places, live_marks};

/// The exit code of an agent whose flags or folders are wrong; never one that a proof asks for.
pub const UNUSABLE: u8 = 70;
