//! Agents in the store of a stage, as a supervisor would have left them.

use std::sync::Arc;

use relight_core::agent::change::AgentChange;
use relight_core::agent::death::HowEnded;
use relight_core::agent::{
    AgentPlan, AgentState, AttemptTag, Cause, Death, PostMortem, RecordedDeath,
};
use relight_core::decide::Guard;
use relight_core::ids::AgentName;
use relight_core::lease::{Holder, ProcessIdentity};
use relight_core::time::{Span, Time};
use relight_runtime::os::{clock, process};
use relight_runtime::store_url::StoreUrl;
use relight_runtime::supervise::folder::AgentFolder;
use relight_store::sqlite::Use;
use relight_store::{AgentCommit, Store};

use crate::relight::Stage;

/// This test, which lives.
pub(crate) fn alive() -> ProcessIdentity {
    process::identity(std::process::id()).unwrap()
}

/// Somebody who had our pid before us.
pub(crate) fn dead() -> ProcessIdentity {
    ProcessIdentity {
        start: 1,
        ..alive()
    }
}

/// One agent of a stage.
pub(crate) struct Told {
    store: Arc<dyn Store>,
    name: AgentName,
}

impl Told {
    pub(crate) fn of(stage: &Stage, name: &str) -> Self {
        let home = stage.folder.path().join("home");
        let store = StoreUrl::Sqlite(home.join("relight.db"))
            .open(Use::Short)
            .unwrap();
        let told = Self {
            store,
            name: AgentName::new(name).unwrap(),
        };
        AgentFolder::of(&home, &told.name).create().unwrap();
        let plan = AgentPlan {
            command: vec!["./writer.sh".to_owned()],
            folder: "/work".to_owned(),
            ..AgentPlan::default()
        };
        told.commit(vec![AgentChange::Created(Box::new(plan))]);
        told
    }

    pub(crate) fn commit(&self, changes: Vec<AgentChange>) {
        let (agent, guard, at) = (self.name.clone(), Guard::default(), clock::now());
        let commit = AgentCommit {
            agent,
            guard,
            at,
            changes,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        runtime.block_on(self.store.commit_agent(commit)).unwrap();
    }

    pub(crate) fn is(&self, state: AgentState) -> &Self {
        self.commit(vec![AgentChange::State(state)]);
        self
    }

    pub(crate) fn held_by(&self, process: ProcessIdentity) -> &Self {
        let holder = Holder::Process(process);
        self.commit(vec![AgentChange::LeaseTaken { holder, ttl: None }]);
        self
    }

    pub(crate) fn tag(number: u32) -> AttemptTag {
        AttemptTag::from_text(format!("writer.{number}.00000000000a"))
    }

    /// An attempt that runs as this process.
    pub(crate) fn runs(&self, number: u32, process: ProcessIdentity, log: (u64, u64)) -> &Self {
        let tag = Self::tag(number);
        let (shim, log) = (Some(process.clone()), Some(log));
        let since = clock::now();
        self.commit(vec![
            AgentChange::Begun {
                number,
                tag: tag.clone(),
            },
            AgentChange::Spawned {
                number,
                process,
                shim,
                log,
            },
            AgentChange::State(AgentState::Running {
                attempt: tag,
                since,
                ending: None,
            }),
        ]);
        self
    }

    /// The attempt fails.
    pub(crate) fn dies(&self, number: u32, last_output: &str) -> &Self {
        self.dies_at(number, last_output, Time::from_ms(1_000))
    }

    pub(crate) fn dies_at(&self, number: u32, last_output: &str, at: Time) -> &Self {
        self.ends(number, HowEnded::Code(3), last_output, at)
    }

    pub(crate) fn ends(&self, number: u32, how: HowEnded, last_output: &str, at: Time) -> &Self {
        let death = Death {
            at,
            last_sign: None,
            lived: Span::from_secs(125),
            how,
            oom: false,
            unfinished_task: None,
            made_progress: false,
            node_lost: false,
            said: None,
            note: Some("the disk \u{1b}[31mwas full".to_owned()),
        };
        let post_mortem = PostMortem {
            last_output: last_output.to_owned(),
            task: Some("report-7".to_owned()),
            last_step: Some("fetch".to_owned()),
            done: vec!["fetch".to_owned()],
            done_count: 1,
            in_doubt: vec!["send".to_owned()],
            next: Some("send".to_owned()),
            memory_max_kib: Some(2_048),
            cpu_ms: Some(1_500),
            leftovers: 2,
            survivors: 0,
        };
        self.commit(vec![
            AgentChange::Ended {
                number,
                ended: Box::new(RecordedDeath {
                    cause: Cause::Failed,
                    death,
                }),
                post_mortem: Box::new(post_mortem),
            },
            AgentChange::State(AgentState::Crashed { again_at: None }),
        ]);
        self
    }
}
