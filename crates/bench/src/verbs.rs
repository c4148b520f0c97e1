//! The CLI verbs that are timed, each with what has to be there before.

/// What a verb leaves on the disk; decides which floor it is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writes {
    Nothing,
    Store,
    StoreAndFile,
}

/// One verb; in every line `{n}` is the number of the call.
pub(crate) struct Verb {
    pub(crate) line: &'static str,
    pub(crate) writes: Writes,
    /// Once, in the new home. A `fence` in its JSON is the fence of the timed calls.
    pub(crate) set_up: Option<&'static str>,
    /// Before each call, not timed. A `fence` in its JSON is the fence of that call.
    pub(crate) before: Option<&'static str>,
    /// What the Python script does for the same purpose.
    pub(crate) python: Option<&'static str>,
    pub(crate) has_target: bool,
}

const READ: Verb = Verb {
    line: "",
    writes: Writes::Nothing,
    set_up: Some(TASK_START),
    before: None,
    python: Some("list"),
    has_target: false,
};
const WRITE: Verb = Verb {
    writes: Writes::Store,
    python: Some("update bench s{n}"),
    ..READ
};
const FILE: Verb = Verb {
    writes: Writes::StoreAndFile,
    set_up: None,
    ..WRITE
};

const TASK_START: &str = "task start bench --json";
const WORKFLOW_START: &str =
    "checkpoint start --workflow bench --agent a --step one --idempotency bench";

/// In the order of the table. The task of a task's verb is `bench` where none is named.
pub(crate) const VERBS: [Verb; 15] = [
    Verb {
        line: "--version",
        set_up: None,
        python: None,
        has_target: true,
        ..READ
    },
    Verb {
        line: "task add t{n} --title bench",
        set_up: None,
        python: Some("start t{n} one"),
        ..WRITE
    },
    Verb {
        line: "task start t{n}",
        set_up: None,
        python: Some("start t{n} one"),
        ..WRITE
    },
    Verb {
        line: "task set bench stage={n}",
        has_target: true,
        ..WRITE
    },
    Verb {
        line: "step begin s{n}",
        has_target: true,
        ..WRITE
    },
    Verb {
        line: "step end s{n}",
        before: Some("step begin s{n}"),
        has_target: true,
        ..WRITE
    },
    Verb {
        line: "step run s{n} -- /bin/true",
        ..WRITE
    },
    Verb {
        line: "task done t{n}",
        set_up: None,
        before: Some("task start t{n} --json"),
        python: Some("complete bench"),
        ..WRITE
    },
    Verb {
        line: "task show bench",
        ..READ
    },
    Verb {
        line: "task list",
        ..READ
    },
    Verb {
        line: "checkpoint start --workflow w{n} --agent a --step one --idempotency k{n}",
        python: Some("start w{n} one"),
        ..FILE
    },
    Verb {
        line: "checkpoint update --workflow bench --step s{n}",
        set_up: Some(WORKFLOW_START),
        has_target: true,
        ..FILE
    },
    Verb {
        line: "checkpoint complete --workflow w{n}",
        before: Some("checkpoint start --workflow w{n} --agent a --step one --idempotency k{n}"),
        python: Some("complete bench"),
        ..FILE
    },
    Verb {
        line: "checkpoint list",
        set_up: Some(WORKFLOW_START),
        ..READ
    },
    Verb {
        line: "check",
        set_up: Some(WORKFLOW_START),
        ..READ
    },
];

impl Verb {
    /// The words before the first argument that is not part of the verb.
    pub(crate) fn name(&self) -> String {
        let is_verb = |word: &&str| !word.contains(['{', '=']) && *word != "bench";
        let mut words = self.line.split_whitespace().take(2).take_while(is_verb);
        let first = words.next().unwrap_or_default();
        words.fold(first.to_string(), |name, word| name + " " + word)
    }
}
