//! Says which promises of supervision were broken, from what agents left of themselves and what the
//! product says of them. Knows nothing of processes: all of it can be made by hand.

mod lives;
mod output;

pub use lives::{Lives, check_lives};
pub use output::Output;
