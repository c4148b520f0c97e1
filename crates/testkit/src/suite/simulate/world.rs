//! The run: what happens next, one thing after the other.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::rc::Rc;
use std::time::Duration;

use relight::fleet::{Due, Keeping, Timing};
use relight_core::node::{Epoch, HeldBy, NodesGlance, Placement, SETTLE, SETTLE_ANEW, Turn};

use super::Options;
use super::faults::{self, Fault};
use super::machine::{Machine, Moment, Standing};
use super::report::Report;
use super::server::{Free, Kind, Server, View};
use crate::world::seed::Seed;

/// How long a tree lives on after its shim has killed it, at the worst.
const KILLING: Duration = Duration::from_millis(150);
/// From a commit to whoever listens.
const NOTIFY_US: u64 = 6_000;
/// Half of all trips to the store take less than this, one way.
const TRIP_US: f64 = 400.0;
/// How far trips differ: the 99th of a hundred takes five times as long as the half.
const TRIP_SPREAD: f64 = 0.7;
/// A clock gains or loses so many millionths at most.
const DRIFT_PPM_MAX: u64 = 200;
/// What a client of the store waits before it tries a server again that is away.
const AGAIN_MS: [u64; 6] = [1, 10, 50, 100, 250, 500];
/// How long it goes on trying.
const TRIES_US: u64 = 10_000_000;
/// What was sent into a cut is sent again within so long after it healed.
const RESENT_MS_MAX: u64 = 1_000;
/// The rest between two looks, as `supervise::tidings` has it: a millisecond for each node, a second at
/// most.
const REST_MS_MAX: u64 = 1_000;
/// All machines start within this time, so that each has its share: nothing moves while its node lives.
const STARTS_WITHIN: Duration = Duration::from_millis(300);
/// How soon a daemon whose join failed tries again.
const JOIN_PAUSE_US: u64 = 200_000;

/// What a node asks of the store.
#[derive(Debug, Clone, Copy)]
enum What {
    Join,
    Renew(Epoch),
    Glance,
    Look,
    Take(Free),
}

/// A question on its way.
#[derive(Debug, Clone, Copy)]
struct Question {
    id: u64,
    node: usize,
    life: u64,
    what: What,
    sent: Moment,
    sent_boot_ms: u64,
    tries: usize,
}

/// What came of it.
enum Answer {
    Joined(Option<Epoch>),
    Renewed(bool),
    Glanced(NodesGlance),
    Looked(NodesGlance, Rc<View>, Vec<Free>),
    Taken(bool),
    /// The store could not be reached for too long.
    Failed,
}

enum Happening {
    Due { node: usize, life: u64 },
    Arrives(Question),
    Performs(Question),
    Answers(Question, Box<Answer>),
    GivesUp { node: usize, life: u64, id: u64 },
    Looks { node: usize, life: u64 },
    Begins(Fault, Duration),
    Ends(Fault),
    Starts(usize),
}

struct Event {
    at: Moment,
    order: u64,
    what: Happening,
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for Event {}
impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Event {
    /// The heap gives the greatest first: that is the earliest.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

/// Everything there is.
pub(super) struct World {
    options: Options,
    timing: Timing,
    seed: Seed,
    now: Moment,
    events: BinaryHeap<Event>,
    numbers: u64,
    machines: Vec<Machine>,
    server: Server,
    /// Questions and answers that a cut holds up.
    held_up: Vec<(usize, Happening)>,
    /// When the store was last away.
    away_until: Moment,
    report: Report,
}

impl World {
    pub(super) fn new(options: Options) -> anyhow::Result<Self> {
        let mut seed = Seed::new(options.seed);
        let drift = |seed: &mut Seed| {
            seed.below(2 * DRIFT_PPM_MAX + 1).cast_signed() - DRIFT_PPM_MAX.cast_signed()
        };
        let machines: Vec<Machine> =
            (0..options.nodes).map(|number| Machine::new(number, drift(&mut seed))).collect();
        let mut world = Self {
            options,
            timing: Timing { lease: options.lease, renew: options.renew },
            seed,
            now: 0,
            events: BinaryHeap::new(),
            numbers: 0,
            machines,
            server: Server::new(options.nodes, options.agents)?,
            held_up: Vec::new(),
            away_until: 0,
            report: Report::default(),
        };
        for node in 0..options.nodes {
            let at = world.seed.moment(STARTS_WITHIN).as_micros() as u64;
            world.schedule(at, Happening::Starts(node));
        }
        for (at, lasts, fault) in faults::draw(&options, &mut world.seed) {
            world.report.faults += 1;
            world.schedule(at, Happening::Begins(fault, lasts));
        }
        Ok(world)
    }

    /// To the end of the span.
    pub(super) fn play(mut self) -> Report {
        let end = self.options.span.as_micros() as u64;
        while let Some(event) = self.events.pop().filter(|event| event.at < end) {
            self.now = event.at;
            self.happen(event.what);
        }
        assert!(self.server.is_as_kept(), "the simulation's books are the store's");
        let lives = |agent: &usize| {
            let of = self.server.held[*agent].0.map(|node| &self.machines[node]);
            of.and_then(|machine| machine.could_act_until(*agent, Duration::ZERO))
                .is_some_and(|until| until > end)
        };
        self.report.unheld = (0..self.options.agents).filter(|agent| !lives(agent)).count();
        self.report.counts = self.server.counts.clone();
        self.report.queue_longest = self.server.queue_longest;
        self.report
    }

    fn schedule(&mut self, at: Moment, what: Happening) {
        self.numbers += 1;
        self.events.push(Event { at, order: self.numbers, what });
    }

    fn happen(&mut self, what: Happening) {
        match what {
            Happening::Due { node, life }
                if self.is_awake(node, life, || Happening::Due { node, life }) =>
            {
                self.due(node);
            }
            Happening::GivesUp { node, life, id }
                if self.is_awake(node, life, || Happening::GivesUp { node, life, id }) =>
            {
                self.give_up(node, id);
            }
            Happening::Looks { node, life }
                if self.is_awake(node, life, || Happening::Looks { node, life }) =>
            {
                self.look(node);
            }
            Happening::Due { .. } | Happening::GivesUp { .. } | Happening::Looks { .. } => {}
            Happening::Arrives(question) => self.arrive(question),
            Happening::Performs(question) => self.perform(question),
            Happening::Answers(question, answer) => self.answer(question, answer),
            Happening::Begins(fault, lasts) => self.begin(fault, lasts),
            Happening::Ends(fault) => self.end(fault),
            Happening::Starts(node) => self.start(node),
        }
    }

    /// Whether the daemon of this life is there and not frozen; one that is does it when it wakes up.
    fn is_awake(&mut self, node: usize, life: u64, again: impl FnOnce() -> Happening) -> bool {
        let machine = &self.machines[node];
        if machine.life != life || matches!(machine.standing, Standing::Down) {
            return false;
        }
        let until = machine.frozen_until;
        if until > self.now {
            self.schedule(until, again());
            return false;
        }
        true
    }

    // The daemon

    fn start(&mut self, node: usize) {
        let machine = &mut self.machines[node];
        if !matches!(machine.standing, Standing::Down) {
            return;
        }
        machine.is_up = true;
        machine.standing = Standing::Joins;
        self.join(node);
    }

    fn join(&mut self, node: usize) {
        let id = self.ask(node, What::Join);
        self.machines[node].awaited = Some(id);
    }

    fn due(&mut self, node: usize) {
        let machine = &self.machines[node];
        let Standing::Member(epoch, keeping) = machine.standing else { return };
        if machine.awaited.is_some() || machine.boot_ms(self.now) < keeping.due_ms() {
            return;
        }
        match keeping.due(machine.boot_ms(self.now)) {
            Due::Lose => self.lose(node),
            Due::Renew => self.ask_in_time(node, What::Renew(epoch), &keeping),
            Due::Look => self.ask_in_time(node, What::Glance, &keeping),
        }
    }

    fn lose(&mut self, node: usize) {
        self.machines[node].lose();
        self.join(node);
    }

    /// Asks, and waits for the answer until nothing may be done any more.
    fn ask_in_time(&mut self, node: usize, what: What, keeping: &Keeping) {
        let id = self.ask(node, what);
        let machine = &mut self.machines[node];
        machine.awaited = Some(id);
        let at = machine.moment_of(keeping.term().stop_at_ms());
        self.give_up_at(node, id, at);
    }

    fn give_up_at(&mut self, node: usize, id: u64, at: Moment) {
        let life = self.machines[node].life;
        self.schedule(at.max(self.now), Happening::GivesUp { node, life, id });
    }

    fn give_up(&mut self, node: usize, id: u64) {
        if self.machines[node].awaited != Some(id) {
            return;
        }
        self.machines[node].awaited = None;
        match self.machines[node].standing {
            Standing::Joins => self.join(node),
            Standing::Member(..) => self.due(node),
            Standing::Down => {}
        }
    }

    /// Comes back to the member when something is due.
    fn wait(&mut self, node: usize) {
        let machine = &self.machines[node];
        if let Standing::Member(_, keeping) = machine.standing {
            let at = machine.moment_of(keeping.due_ms()).max(self.now);
            let life = machine.life;
            self.schedule(at, Happening::Due { node, life });
        }
    }

    // Looking for agents

    fn look_at(&mut self, node: usize, at: Moment) {
        let machine = &mut self.machines[node];
        if matches!(machine.standing, Standing::Down)
            || machine.looks_at.is_some_and(|due| due <= at)
        {
            return;
        }
        machine.looks_at = Some(at);
        let life = machine.life;
        self.schedule(at, Happening::Looks { node, life });
    }

    fn look(&mut self, node: usize) {
        let now = self.now;
        let machine = &mut self.machines[node];
        if machine.looks_at.is_none_or(|due| due > now) {
            return;
        }
        machine.looks_at = None;
        if machine.is_looking {
            // When that one is over.
            machine.looks_at = Some(now);
            return;
        }
        if machine.may_act(now) {
            (machine.is_looking, machine.looked_at) = (true, now);
            self.ask(node, What::Look);
        }
    }

    fn looked(&mut self, node: usize, glance: NodesGlance, view: &View, free: &[Free]) {
        let now = self.now;
        let machine = &mut self.machines[node];
        machine.is_looking = false;
        machine.mark = glance.mark;
        if let Some(due) = machine.looks_at.take() {
            self.look_at(node, due.max(now));
        }
        let machine = &mut self.machines[node];
        if !machine.may_act(now) {
            return;
        }
        let boot = machine.boot(now);
        let mut again: Option<Duration> = None;
        let mut takes = Vec::new();
        let mut known = std::mem::take(&mut machine.free);
        let is_as_before = std::mem::replace(&mut machine.free_mark, glance.mark) == glance.mark;
        for one in free {
            let is_ours = one.held_by == Some(node);
            let is_supervised = machine.copies.get(&one.agent).is_some_and(|copy| copy.is_guided);
            if (is_ours && is_supervised) || machine.asked.contains(&one.agent) {
                continue;
            }
            let by = if is_ours { HeldBy::Us } else { HeldBy::Nobody };
            let before = known.remove(&one.agent);
            let since = before.map_or(boot, |(since, _)| since);
            if !is_ours && boot < machine.settled {
                // Whose turn it is does not matter yet.
                machine.free.insert(one.agent, (since, Turn::Nobodys));
                again = Some(again.map_or(machine.settled, |at| at.min(machine.settled)));
                continue;
            }
            let turn = match before {
                // The same question about the same nodes.
                Some((_, turn @ (Turn::Ours | Turn::Anothers))) if is_as_before && !is_ours => turn,
                _ => {
                    let name = self.server.agent(one.agent);
                    let nodes = view.shortlist(one.agent, name, node);
                    Turn::of(&machine.name, name, &Placement::Any, by, &nodes)
                }
            };
            machine.free.insert(one.agent, (since, turn));
            let Some(ripe) = turn.ripe_at(boot, machine.settled, since) else { continue };
            if ripe <= boot {
                machine.asked.insert(one.agent);
                takes.push(*one);
            } else {
                again = Some(again.map_or(ripe, |at| at.min(ripe)));
            }
        }
        for free in takes {
            self.ask(node, What::Take(free));
        }
        if let Some(again) = again {
            let at = self.machines[node].moment_of(again.as_millis() as u64 + 1);
            self.look_at(node, at);
        }
    }

    /// Something was committed: everybody who listens looks, after their rest.
    fn tell(&mut self) {
        let rest = (self.machines.len() as u64).min(REST_MS_MAX) * 1_000;
        for node in 0..self.machines.len() {
            let machine = &self.machines[node];
            if machine.cuts == 0 && matches!(machine.standing, Standing::Member(..)) {
                let at = (self.now + NOTIFY_US).max(machine.looked_at + rest);
                self.look_at(node, at);
            }
        }
    }

    // The way to the store and back

    fn trip(&mut self) -> u64 {
        let uniform = |seed: &mut Seed| (seed.draw() >> 11) as f64 / (1_u64 << 53) as f64;
        let (one, two) = (uniform(&mut self.seed), uniform(&mut self.seed));
        let normal = (-2.0 * (1.0 - one).ln()).sqrt() * (std::f64::consts::TAU * two).cos();
        (TRIP_US * (TRIP_SPREAD * normal).exp()) as u64
    }

    fn ask(&mut self, node: usize, what: What) -> u64 {
        self.numbers += 1;
        let machine = &self.machines[node];
        let question = Question {
            id: self.numbers,
            node,
            life: machine.life,
            what,
            sent: self.now,
            sent_boot_ms: machine.boot_ms(self.now),
            tries: 0,
        };
        let at = self.now + self.trip();
        self.schedule(at, Happening::Arrives(question));
        question.id
    }

    fn arrive(&mut self, question: Question) {
        if self.machines[question.node].cuts > 0 {
            self.held_up.push((question.node, Happening::Arrives(question)));
        } else if self.server.is_up {
            let at = self.server.done_at(question.what.kind(), self.now);
            self.schedule(at, Happening::Performs(question));
        } else {
            self.try_again(question);
        }
    }

    /// The client's own patience with a server that is away.
    fn try_again(&mut self, mut question: Question) {
        let (trip_there, trip_back) = (self.trip(), self.trip());
        let is_alive = self.machines[question.node].life == question.life;
        if self.now > question.sent + TRIES_US || !is_alive {
            let answer = Happening::Answers(question, Box::new(Answer::Failed));
            return self.schedule(self.now + trip_back, answer);
        }
        let pause_ms = AGAIN_MS.get(question.tries).or(AGAIN_MS.last()).copied().unwrap_or(1);
        question.tries += 1;
        let at = self.now + trip_back + pause_ms * 1_000 + trip_there;
        self.schedule(at, Happening::Arrives(question));
    }

    fn perform(&mut self, question: Question) {
        if !self.server.is_up {
            return self.try_again(question);
        }
        self.server.set_clock(self.now);
        let name = self.machines[question.node].name.clone();
        let answer = match question.what {
            What::Join => {
                let joined = self.server.join(&name, self.options.lease);
                self.tell();
                Answer::Joined(joined)
            }
            What::Renew(epoch) => Answer::Renewed(self.server.renew(&name, epoch)),
            What::Glance => Answer::Glanced(self.server.glance()),
            What::Look => {
                let glance = self.server.glance();
                let view = self.server.view(glance.mark);
                let free = self.server.free(&view, question.node);
                Answer::Looked(glance, view, free)
            }
            What::Take(free) => Answer::Taken(self.take(question.node, free)),
        };
        let at = self.now + self.trip();
        self.schedule(at, Happening::Answers(question, Box::new(answer)));
    }

    /// As `take_up` does: nobody is taken from whose lease lasts, nor what moved on since it was read.
    fn take(&mut self, node: usize, free: Free) -> bool {
        let glance = self.server.glance();
        let view = self.server.view(glance.mark);
        let other = free.held_by.filter(|holder| *holder != node);
        if other.is_some_and(|holder| !view.gone.contains(&holder)) {
            return false;
        }
        let name = self.machines[node].name.clone();
        if !self.server.take(free.agent, free.seq, node, &name) {
            return false;
        }
        if let Some(holder) = other {
            self.judge(free.agent, holder);
        }
        let many = self.server.of_node[node].len();
        self.report.most_on_one = self.report.most_on_one.max(many);
        self.tell();
        true
    }

    /// An agent was taken from a node just now.
    fn judge(&mut self, agent: usize, from: usize) {
        let machine = &mut self.machines[from];
        if let Some(until) = machine.could_act_until(agent, KILLING) {
            match self.now.checked_sub(until) {
                None => self.report.doubled += 1,
                Some(after) => {
                    let after = Duration::from_micros(after);
                    let closest = self.report.closest.map_or(after, |closest| closest.min(after));
                    self.report.closest = Some(closest);
                }
            }
        }
        machine.copies.remove(&agent);
        let since = machine.trouble_since.unwrap_or(self.now);
        let took = Duration::from_micros(self.now - since);
        if self.away_until > since || !self.server.is_up {
            self.report.store_away += 1;
        } else if machine.is_up {
            self.report.needless.add(took);
        } else {
            self.report.crashes.add(took);
        }
    }

    fn answer(&mut self, question: Question, answer: Box<Answer>) {
        let (node, now) = (question.node, self.now);
        if self.machines[node].cuts > 0 {
            return self.held_up.push((node, Happening::Answers(question, answer)));
        }
        let machine = &mut self.machines[node];
        if machine.life != question.life || matches!(machine.standing, Standing::Down) {
            return;
        }
        if machine.frozen_until > now {
            let until = machine.frozen_until;
            return self.schedule(until, Happening::Answers(question, answer));
        }
        match (question.what, *answer) {
            (What::Take(free), answer) => {
                self.taken(node, free, matches!(answer, Answer::Taken(true)));
            }
            (What::Look, Answer::Looked(glance, view, free)) => {
                self.looked(node, glance, &view, &free);
            }
            (What::Look, _) => {
                machine.is_looking = false;
                self.look_at(node, now + JOIN_PAUSE_US);
            }
            _ if machine.awaited != Some(question.id) => {}
            (_, answer) => {
                machine.awaited = None;
                self.member_answered(node, &question, answer);
            }
        }
    }

    fn member_answered(&mut self, node: usize, question: &Question, answer: Answer) {
        let now = self.now;
        let machine = &mut self.machines[node];
        let now_ms = machine.boot_ms(now);
        match (answer, machine.standing) {
            (Answer::Joined(Some(epoch)), Standing::Joins) => {
                let keeping = Keeping::begun(question.sent_boot_ms, self.timing);
                machine.standing = Standing::Member(epoch, keeping);
                machine.trouble_since = None;
                let settle = if machine.was_member { SETTLE_ANEW } else { SETTLE };
                machine.settled = machine.boot(now) + settle;
                machine.was_member = true;
                self.ask_in_time(node, What::Glance, &keeping);
                self.look_at(node, now);
            }
            (Answer::Renewed(true), Standing::Member(epoch, mut keeping)) => {
                if !keeping.renewed(question.sent_boot_ms, now_ms) {
                    return self.lose(node);
                }
                machine.standing = Standing::Member(epoch, keeping);
                machine.trouble_since = None;
                machine.guard(now);
                self.ask_in_time(node, What::Glance, &keeping);
            }
            (Answer::Renewed(false), Standing::Member(..)) => self.lose(node),
            (Answer::Glanced(glance), Standing::Member(epoch, mut keeping)) => {
                keeping.looked(now_ms, glance.first_end);
                machine.standing = Standing::Member(epoch, keeping);
                if machine.mark != glance.mark {
                    machine.mark = glance.mark;
                    self.server.done_at(Kind::Nodes, now);
                    self.look_at(node, now);
                }
                self.wait(node);
            }
            (_, Standing::Member(..)) => self.wait(node),
            (_, Standing::Joins) => {
                self.machines[node].awaited = Some(question.id);
                self.give_up_at(node, question.id, now + JOIN_PAUSE_US);
            }
            (_, Standing::Down) => {}
        }
    }

    fn taken(&mut self, node: usize, free: Free, is_taken: bool) {
        let now = self.now;
        let machine = &mut self.machines[node];
        machine.asked.remove(&free.agent);
        if !is_taken || !machine.may_act(now) {
            return;
        }
        let was_alive = machine.supervise(free.agent, now);
        if free.held_by == Some(node) {
            self.report.adopted += u64::from(was_alive);
            self.report.restarted += u64::from(!was_alive);
        }
    }

    // What goes wrong

    fn begin(&mut self, fault: Fault, lasts: Duration) {
        let now = self.now;
        let troubled = |machine: &mut Machine| {
            machine.trouble_since.get_or_insert(now);
        };
        match &fault {
            Fault::Crash(node) | Fault::DaemonGone(node) | Fault::Freeze(node)
                if matches!(self.machines[*node].standing, Standing::Down) =>
            {
                return;
            }
            Fault::Crash(node) => {
                self.machines[*node].crash();
                self.machines[*node].trouble_since = Some(now);
            }
            Fault::DaemonGone(node) => {
                self.machines[*node].stop_daemon();
                troubled(&mut self.machines[*node]);
            }
            Fault::Freeze(node) => {
                let machine = &mut self.machines[*node];
                machine.frozen_until = now + lasts.as_micros() as u64;
                troubled(machine);
            }
            Fault::Cut(nodes) => {
                for machine in &mut self.machines[nodes.clone()] {
                    machine.cuts += 1;
                    troubled(machine);
                }
            }
            Fault::StoreAway(_) if !self.server.is_up => return,
            Fault::StoreAway(_) => {
                self.server.is_up = false;
                self.away_until = now + lasts.as_micros() as u64;
            }
        }
        self.schedule(now + lasts.as_micros() as u64, Happening::Ends(fault));
    }

    fn end(&mut self, fault: Fault) {
        match fault {
            Fault::Crash(node) | Fault::DaemonGone(node) => self.start(node),
            Fault::Freeze(_) => {}
            Fault::Cut(nodes) => {
                for machine in &mut self.machines[nodes] {
                    machine.cuts -= 1;
                }
                self.send_what_was_held_up();
            }
            Fault::StoreAway(jump_ms) => {
                self.server.is_up = true;
                // The successor's clock is near true time, as the one before it was.
                self.server.ahead_ms = jump_ms;
            }
        }
    }

    fn send_what_was_held_up(&mut self) {
        for (node, what) in std::mem::take(&mut self.held_up) {
            if self.machines[node].cuts > 0 {
                self.held_up.push((node, what));
            } else {
                let at = self.now + self.seed.below(RESENT_MS_MAX * 1_000);
                self.schedule(at, what);
            }
        }
    }
}

impl What {
    fn kind(self) -> Kind {
        match self {
            Self::Join => Kind::Join,
            Self::Renew(_) => Kind::Renew,
            Self::Glance => Kind::Glance,
            Self::Look => Kind::Look,
            Self::Take(_) => Kind::Take,
        }
    }
}
