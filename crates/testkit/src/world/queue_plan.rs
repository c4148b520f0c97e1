//! The tasks of a queue under proof: what each is, and how it must end.

use relight_runtime::core::ids::TaskId;
use relight_runtime::core::task::NewTask;

/// The steps of each.
pub const STEPS: [&str; 3] = ["s1", "s2", "s3"];
/// Retries that no number of kills uses up.
const RETRIES_ENOUGH: u32 = 1_000_000;

/// How a task must end, whatever is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Completed, by its strategy.
    Completes {
        /// The same agent goes on; no retry is charged.
        resumes: bool,
    },
    /// Failed with all retries used up.
    Fails {
        /// How many it has.
        max_retries: u32,
    },
    /// The same by a panic.
    Panics {
        /// How many it has.
        max_retries: u32,
    },
}

impl Fate {
    /// The retries it has.
    pub fn max_retries(self) -> u32 {
        match self {
            Self::Completes { .. } => RETRIES_ENOUGH,
            Self::Fails { max_retries } | Self::Panics { max_retries } => max_retries,
        }
    }
}

/// The id of the n-th task.
pub fn id(number: usize) -> String {
    format!("q{number}")
}

/// Whether it is the id of a task of this plan.
pub fn is_of(id: &str) -> bool {
    id.strip_prefix('q')
        .is_some_and(|number| number.parse::<u32>().is_ok())
}

/// By its number: most complete, one in ten fails, one in twenty panics.
pub fn fate(id: &str) -> Fate {
    let number: u32 = id[1..].parse().expect("an id of this plan");
    match number % 20 {
        3 | 13 => Fate::Fails {
            max_retries: number / 20 % 4,
        },
        7 => Fate::Panics {
            max_retries: number / 20 % 3,
        },
        1 | 5 | 9 | 15 | 19 => Fate::Completes { resumes: true },
        _ => Fate::Completes { resumes: false },
    }
}

/// The n-th task.
pub fn new_task(number: usize) -> NewTask {
    let id = id(number);
    let fate = fate(&id);
    let mut new = NewTask::bare(TaskId::new(id).expect("an id"));
    new.spec.max_retries = Some(fate.max_retries());
    new.spec.priority = (number % 3) as i32;
    if fate == (Fate::Completes { resumes: true }) {
        new.spec.strategy = Some("resume".to_owned());
    }
    new
}
