//! What befalls a fleet, done: by a schedule, and at the end of a trial.

use anyhow::Context as _;
use rustix::process::Signal;

use super::LEASE;
use super::arena::Arena;
use super::node::SKEWS;
use super::schedule::{Act, LASTING, Lane, Part, Trouble};
use crate::checker::fleet::Freeze;
use crate::world::clock;
use crate::world::network::Cut;
use crate::world::seed::Seed;
use crate::world::tally::Violation;

impl Arena {
    /// Does what a schedule says.
    pub(super) fn act(&mut self, act: Act, seed: &mut Seed) -> anyhow::Result<()> {
        match act.lane {
            Lane::Node(number) => self.act_on_node(number, act.trouble, act.part, seed),
            Lane::Database => self.act_on_database(act.trouble, act.part, seed),
        }
    }

    fn act_on_node(
        &mut self,
        number: usize,
        trouble: Trouble,
        part: Part,
        seed: &mut Seed,
    ) -> anyhow::Result<()> {
        let (network, node) = (&self.network, &mut self.nodes[number]);
        node.trouble = (part != Part::End).then_some(trouble);
        match (trouble, part) {
            (Trouble::NodeKilled, Part::Begin) => {
                // A machine without power says nothing; one that only crashes closes its connections.
                if seed.below(2) == 0 {
                    network.cut(&mut node.machine.cable, Cut::BothWays)?;
                }
                node.machine.kill()
            }
            (Trouble::NodeKilled, _) => {
                network.mend(&mut node.machine.cable)?;
                self.boot(number, seed)
            }
            (Trouble::DaemonKilled, Part::Begin) => {
                node.signal_daemon(Signal::KILL);
                Ok(())
            }
            (Trouble::DaemonKilled, _) => node.start(&self.relight),
            (Trouble::DaemonFrozen, Part::Begin) => {
                node.signal_daemon(Signal::STOP);
                Ok(())
            }
            (Trouble::DaemonFrozen, _) => {
                node.signal_daemon(Signal::CONT);
                Ok(())
            }
            (Trouble::NodeFrozen, Part::Begin) => {
                node.frozen_from_ns = clock::wall_ns();
                node.machine.freeze()
            }
            (Trouble::NodeFrozen, _) => {
                node.machine.thaw(seed);
                let (from_ns, until_ns) = (node.frozen_from_ns, clock::wall_ns());
                self.freezes.push(Freeze {
                    node: node.name.clone(),
                    from_ns,
                    until_ns,
                });
                Ok(())
            }
            (Trouble::Cut(cut), Part::Begin) => network.cut(&mut node.machine.cable, cut),
            (Trouble::Flapping, Part::Begin | Part::Again) if seed.below(2) == 0 => {
                let cuts = [Cut::BothWays, Cut::ToServer, Cut::FromServer];
                network.cut(&mut node.machine.cable, cuts[seed.below(3) as usize])
            }
            (Trouble::Cut(_) | Trouble::Flapping, _) => network.mend(&mut node.machine.cable),
            (Trouble::ClockTurned, Part::Begin) => {
                let skew = SKEWS[seed.below(SKEWS.len() as u64) as usize];
                Ok(std::fs::write(&node.clock_file, skew)?)
            }
            (Trouble::ClockTurned, _) => Ok(()),
            (Trouble::DatabaseKilled | Trouble::ConnectionsKilled, _) => {
                unreachable!("a node is no database")
            }
        }
    }

    fn act_on_database(
        &mut self,
        trouble: Trouble,
        part: Part,
        seed: &mut Seed,
    ) -> anyhow::Result<()> {
        match (trouble, part) {
            (Trouble::DatabaseKilled, Part::Begin) => {
                self.cluster.kill();
                self.is_database_up = false;
            }
            (Trouble::DatabaseKilled, _) => self.start_database(),
            (_, _) if self.is_database_up => self.kill_connections(seed),
            (_, _) => {}
        }
        Ok(())
    }

    fn start_database(&mut self) {
        if !self.is_database_up {
            self.cluster.start_server();
            self.is_database_up = true;
        }
    }

    fn kill_connections(&self, seed: &mut Seed) {
        let all = self.cluster.sql(
            "SELECT pid FROM pg_stat_activity WHERE application_name = 'relight' ORDER BY pid",
        );
        let chosen: Vec<&str> = all.lines().filter(|_| seed.below(2) == 0).collect();
        if !chosen.is_empty() {
            let pids = chosen.join(", ");
            self.cluster.sql(&format!(
                "SELECT pg_terminate_backend(pid) FROM unnest(ARRAY[{pids}]) AS pid"
            ));
        }
    }

    /// Cuts node after node off, then mends them in another order.
    pub(super) fn one_by_one(&mut self, seed: &mut Seed) -> anyhow::Result<Vec<Violation>> {
        let mut found = Vec::new();
        let mut order: Vec<usize> = (0..self.nodes.len()).collect();
        for part in [Part::Begin, Part::End] {
            seed.shuffle(&mut order);
            for &number in &order {
                let cuts = [Cut::BothWays, Cut::ToServer, Cut::FromServer];
                let trouble = Trouble::Cut(cuts[seed.below(3) as usize]);
                self.act_on_node(number, trouble, part, seed)?;
                let pause = seed.between(LEASE / 10, LEASE / 2);
                found.extend(self.wait_until(clock::now() + pause)?);
            }
        }
        Ok(found)
    }

    /// Something befalls every node at once, now and then the database too, and lasts longer than all
    /// leases.
    pub(super) fn last_blow(&mut self, seed: &mut Seed) -> anyhow::Result<Vec<Violation>> {
        for number in 0..self.nodes.len() {
            let trouble = LASTING[seed.below(LASTING.len() as u64) as usize];
            self.act_on_node(number, trouble, Part::Begin, seed)?;
        }
        if seed.below(3) == 0 {
            self.act_on_database(Trouble::DatabaseKilled, Part::Begin, seed)?;
        }
        self.wait_until(clock::now() + seed.between(LEASE, LEASE * 3 / 2))
    }

    /// Ends every trouble: cables, machines, daemons and the database.
    pub(super) fn heal(&mut self, seed: &mut Seed) -> anyhow::Result<()> {
        self.start_database();
        for number in 0..self.nodes.len() {
            if let Some(trouble) = self.nodes[number].trouble {
                self.act_on_node(number, trouble, Part::End, seed)?;
            }
            self.network.mend(&mut self.nodes[number].machine.cable)?;
        }
        self.mind()
    }

    /// The node with most agents is gone for good, and only its lease tells of it.
    pub(super) fn lose_one(&mut self) -> anyhow::Result<()> {
        let network = &self.network;
        let node = self
            .nodes
            .iter_mut()
            .max_by_key(|node| node.machine.agents());
        let node = node.context("a fleet has nodes")?;
        node.trouble = Some(Trouble::NodeKilled);
        network.cut(&mut node.machine.cable, Cut::BothWays)?;
        node.machine.kill()
    }
}
