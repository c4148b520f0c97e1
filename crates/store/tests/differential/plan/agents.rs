//! The part of the plan that is about agents, their attempts and small records.

use relight_core::agent::change::AgentChange;
use relight_core::agent::death::HowEnded;
use relight_core::agent::decide::{AgentDecisionInput, AgentEvent, decide};
use relight_core::agent::{
    Agent, AgentPlan, AgentState, AgentStateKind, AttemptTag, Cause, Death, Pause, PostMortem,
    RecordedDeath, StopReason, Stopper,
};
use relight_core::decide::Guard;
use relight_core::event::EventKind;
use relight_core::ids::AgentName;
use relight_core::lease::Fence;
use relight_core::restart_budget::Tally;
use relight_store::{AgentCommit, AgentQuery, AttemptQuery};
use serde_json::json;

use super::Plan;
use crate::pair::{Pair, all_attempts};

const RECORDS: [&str; 2] = ["boots", ""];

impl Plan {
    /// One operation about agents.
    pub(super) async fn supervise(&mut self, pair: &mut Pair<'_>) {
        match self.dice.below(20) {
            0..2 => self.create_agent(pair).await,
            2..10 => self.decided_agent(pair).await,
            10..14 => self.raw_agent(pair).await,
            14 => self.forget_agent(pair).await,
            15 => pair.forget_attempts(self.around_now()).await,
            16..18 => self.keep(pair).await,
            _ => self.look_at_agents(pair).await,
        }
    }

    // Writes

    async fn create_agent(&mut self, pair: &mut Pair<'_>) {
        let mut changes = vec![AgentChange::Created(Box::new(self.agent_plan()))];
        if self.dice.chance(50) {
            changes.push(self.agent_lease());
        }
        // Without a fence: `verify` reports events under a fence that the agent never had.
        let guard = Guard {
            fence: None,
            ..self.agent_guard(None)
        };
        let agent = self.agent();
        pair.commit_agent(AgentCommit {
            agent,
            guard,
            at: self.now,
            changes,
        })
        .await;
    }

    /// What the table makes of a random event.
    async fn decided_agent(&mut self, pair: &mut Pair<'_>) {
        let name = self.agent();
        let Some(agent) = pair.agent(&name).await else {
            return;
        };
        let moment = AgentDecisionInput {
            now: self.now,
            jitter: 0.5,
            chance: self.dice.roll(),
            task: None,
        };
        let changes = decide(&agent, self.agent_event(), moment).changes;
        let guard = Guard {
            fence: None,
            seq: Some(agent.seq),
        };
        let guard = if self.dice.chance(70) {
            guard
        } else {
            self.agent_guard(Some(&agent))
        };
        pair.commit_agent(AgentCommit {
            agent: name,
            guard,
            at: self.now,
            changes,
        })
        .await;
    }

    /// Changes that nobody decided, under a guard that may be wrong.
    async fn raw_agent(&mut self, pair: &mut Pair<'_>) {
        let name = self.agent();
        let agent = pair.agent(&name).await;
        let query = AttemptQuery {
            agent: Some(name.clone()),
            limit: 1,
            ..all_attempts()
        };
        let mut newest = pair
            .attempts(query)
            .await
            .first()
            .map_or(0, |newest| newest.number);
        let mut changes = Vec::new();
        for _ in 0..self.dice.below(4) {
            let change = self.agent_change(&name, newest);
            // `verify` reports an attempt that is newer than its agent's last one.
            if let AgentChange::Begun { number, .. } = &change {
                newest = newest.max(*number);
            }
            changes.push(change);
        }
        let guard = self.agent_guard(agent.as_ref());
        pair.commit_agent(AgentCommit {
            agent: name,
            guard,
            at: self.now,
            changes,
        })
        .await;
    }

    async fn forget_agent(&mut self, pair: &mut Pair<'_>) {
        let name = self.agent();
        let seq = pair.agent(&name).await.map_or(0, |agent| agent.seq);
        let wrong = u64::from(self.dice.chance(20));
        pair.forget_agent(&name, seq + wrong, self.now).await;
    }

    async fn keep(&mut self, pair: &mut Pair<'_>) {
        let name = *self.dice.pick(&RECORDS);
        let before = pair.kept(name).await;
        let before = if self.dice.chance(80) {
            before
        } else {
            Some(json!("another"))
        };
        let now = json!({"n": self.dice.roll(), "text": self.text()});
        pair.keep(name, before, now).await;
    }

    // Reads

    async fn look_at_agents(&mut self, pair: &mut Pair<'_>) {
        if self.dice.chance(50) {
            let states = (0..self.dice.below(3)).map(|_| *self.dice.pick(&AgentStateKind::ALL));
            let query = AgentQuery {
                states: states.collect(),
                after: self.dice.chance(30).then(|| self.agent()),
                limit: self.dice.maybe(|dice| dice.below(3) as usize),
            };
            pair.agents(query).await;
            return;
        }
        let query = AttemptQuery {
            agent: self.dice.chance(50).then(|| self.agent()),
            ended: self.dice.chance(50),
            limit: self.dice.below(10) as usize,
            before: None,
        };
        pair.attempts(query).await;
    }

    // Parts

    fn agent_event(&mut self) -> AgentEvent {
        match self.dice.below(16) {
            0 => AgentEvent::Wake,
            1 => AgentEvent::Start,
            2 => AgentEvent::Stop(Stopper::Shutdown),
            3 => AgentEvent::End(StopReason::Restart),
            4 => AgentEvent::Due,
            5 => AgentEvent::HoldBack,
            6 => AgentEvent::Progress,
            7 => AgentEvent::RoundOver {
                finished: self.dice.chance(30),
            },
            _ => AgentEvent::Died {
                death: Box::new(self.ended().death),
                post_mortem: Box::default(),
                task: None,
            },
        }
    }

    fn agent_change(&mut self, name: &AgentName, newest: u32) -> AgentChange {
        let number = newest.saturating_sub(self.dice.below(2) as u32);
        match self.dice.below(14) {
            0 => AgentChange::Planned(Box::new(self.agent_plan())),
            1 | 2 => AgentChange::State(self.agent_state(name)),
            3 => AgentChange::Tally(Tally {
                in_a_row: self.dice.below(9) as u32,
                ..Tally::default()
            }),
            // The next one, or the newest once more.
            4 | 5 => AgentChange::Begun {
                number: newest + u32::from(newest == 0 || self.dice.chance(80)),
                tag: AttemptTag::new(name, newest + 1, self.dice.below(3)),
            },
            6 => AgentChange::Reserved(AttemptTag::new(name, newest + 1, self.dice.roll())),
            7 => AgentChange::Spawned {
                number,
                process: self.process(),
                shim: self.dice.chance(50).then(|| self.process()),
                log: self.dice.maybe(|dice| (dice.roll(), dice.roll())),
            },
            8 => AgentChange::Ended {
                number,
                ended: Box::new(self.ended()),
                post_mortem: Box::new(PostMortem {
                    last_output: self.text(),
                    ..PostMortem::default()
                }),
            },
            9 => AgentChange::Session(self.dice.chance(50).then(|| self.text())),
            10 => AgentChange::Iteration(self.dice.below(9) as u32),
            11 => self.agent_lease(),
            12 => AgentChange::LeaseEnded,
            _ => AgentChange::Noted(EventKind::Alert, json!({"why": self.text()})),
        }
    }

    fn agent_state(&mut self, name: &AgentName) -> AgentState {
        let (at, why) = (self.around_now(), self.text());
        let attempt = AttemptTag::new(name, 1, self.dice.below(3));
        let ending = self.dice.maybe(|_| StopReason::Hung);
        let until = self.dice.maybe(|_| at);
        match self.dice.below(5) {
            0 => AgentState::Running {
                attempt,
                since: at,
                ending,
            },
            1 => AgentState::Crashed { again_at: until },
            2 => AgentState::Suspended {
                why: Pause::Deferred,
                until,
            },
            3 => AgentState::Stopped {
                by: Stopper::Person,
            },
            _ => AgentState::Terminated { why },
        }
    }

    fn agent_lease(&mut self) -> AgentChange {
        let (holder, ttl) = self.holder();
        AgentChange::LeaseTaken { holder, ttl }
    }

    fn agent_plan(&mut self) -> AgentPlan {
        let command = (0..self.dice.below(3)).map(|_| self.text()).collect();
        let iterations_max = self.dice.maybe(|dice| dice.below(3) as u32);
        AgentPlan {
            command,
            folder: self.text(),
            iterations_max,
            ..AgentPlan::default()
        }
    }

    fn ended(&mut self) -> RecordedDeath {
        let how = HowEnded::Code(self.dice.below(256) as i32);
        let death = Death {
            how,
            ..Death::lost(self.around_now(), self.text())
        };
        RecordedDeath {
            cause: *self.dice.pick(&Cause::ALL),
            death,
        }
    }

    fn agent_guard(&mut self, agent: Option<&Agent>) -> Guard {
        let (fence, seq) = agent.map_or((Fence(1), 1), |agent| (agent.lease.fence, agent.seq));
        Guard {
            fence: self.dice.chance(50).then(|| self.near(fence)),
            seq: self.dice.chance(40).then(|| self.near(Fence(seq)).0),
        }
    }
}
