//! The agents of a trial: one of each bad habit.

use std::path::Path;

use crate::world::daemon::Entry;

/// What an agent does to make supervision hard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Habit {
    /// Writes a line now and then.
    Steady,
    /// Writes a lot.
    Fast,
    /// Has children, which hold all that they inherited.
    Forker,
    /// Has grandchildren in sessions of their own.
    Daemonizer,
    /// Ignores SIGTERM, with all of its tree.
    Deaf,
    /// Fails by itself, and leaves a child.
    Failer,
    /// Ends well by itself, and leaves a grandchild.
    Finisher,
    /// Falls silent.
    Hanger,
    /// Is silent but for its beats.
    Beater,
    /// Fails by itself, and has to wait for its cooldown. Only where time itself is the matter.
    Waiter,
}

impl Habit {
    /// The usual cast.
    pub(super) const ALL: [Self; 9] = [
        Self::Steady,
        Self::Fast,
        Self::Forker,
        Self::Daemonizer,
        Self::Deaf,
        Self::Failer,
        Self::Finisher,
        Self::Hanger,
        Self::Beater,
    ];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::Fast => "fast",
            Self::Forker => "forker",
            Self::Daemonizer => "daemonizer",
            Self::Deaf => "deaf",
            Self::Failer => "failer",
            Self::Finisher => "finisher",
            Self::Hanger => "hanger",
            Self::Beater => "beater",
            Self::Waiter => "waiter",
        }
    }

    fn flags(self) -> &'static str {
        match self {
            Self::Steady => "--lines 1 --every-ms 5",
            Self::Fast => "--lines 100 --every-ms 10 --width 120",
            Self::Forker => "--lines 1 --children 3",
            Self::Daemonizer => "--lines 1 --children 1 --grandchildren 2",
            Self::Deaf => "--lines 1 --children 1 --grandchildren 1",
            Self::Failer => "--lines 1 --children 1 --exit-after-ms 400 --exit-code 3",
            Self::Finisher => "--lines 1 --grandchildren 1 --exit-after-ms 500",
            Self::Hanger => "--lines 1 --children 1 --hang-after-ms 300",
            Self::Beater => "--beat-ms 50",
            Self::Waiter => "--exit-after-ms 100 --exit-code 3",
        }
    }

    /// Causes of death that its own doing leads to.
    pub(super) fn causes(self) -> Vec<&'static str> {
        match self {
            Self::Steady
            | Self::Fast
            | Self::Forker
            | Self::Daemonizer
            | Self::Deaf
            | Self::Beater => vec![],
            Self::Failer | Self::Waiter => vec!["failed"],
            Self::Finisher => vec!["completed"],
            Self::Hanger => vec!["hung"],
        }
    }

    /// Whether it lives until somebody ends it.
    pub(super) fn is_lasting(self) -> bool {
        self.causes().is_empty()
    }

    /// Its entry in the configuration.
    pub(super) fn entry(self, name: &str, fake_agent: &Path, records: &Path) -> Entry {
        let program = fake_agent.display().to_string();
        let records = records.display().to_string();
        let mut words = match self {
            Self::Deaf => vec!["sh", "-c", "trap '' TERM; exec \"$0\" \"$@\"", &program],
            _ => vec![program.as_str()],
        };
        words.extend(["--folder", &records, "--name", name]);
        words.extend(self.flags().split(' '));
        let entry = Entry::at_once(name, &words);
        match self {
            Self::Hanger => entry.with("silence_max", "\"500ms\""),
            // Many times its pace: only a supervisor that does not hear it takes it for hung.
            Self::Beater => entry.with("silence_max", "\"5s\""),
            Self::Waiter => entry.with("cooldown", "\"500ms\""),
            _ => entry,
        }
    }
}
