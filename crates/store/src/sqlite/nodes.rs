//! Nodes as rows.

use relight_core::event::EventKind;
use relight_core::ids::NodeName;
use relight_core::node::{Epoch, NewNode, Node};
use relight_core::time::Time;
use rusqlite::{Connection, OptionalExtension, Result, Row, params};

use super::journal;
use super::lease_clock::LeaseNow;
use super::tasks::{from_json, left, readable, to_json, unsigned};
use crate::check;
use crate::contract::Joined;
use crate::node_told::{self, NodeTold};

const SELECT: &str = "SELECT epoch, draining, joined_at, lease_until, lease_boot, body FROM node";

pub(super) fn list(db: &Connection, now: LeaseNow) -> Result<Vec<Node>> {
    let mut select = db.prepare_cached(&format!("{SELECT} ORDER BY name"))?;
    readable(select.query_map([], |row| read(row, now))?)
}

pub(super) fn join(
    db: &Connection,
    new: &NewNode,
    last: Option<Epoch>,
    at: Time,
    now: LeaseNow,
) -> Result<Joined> {
    let mut select = db.prepare_cached(&format!("{SELECT} WHERE name = ?1"))?;
    let before = select.query_row([new.name.as_str()], |row| read(row, now)).optional()?;
    let epoch = match check::joins(before.as_ref(), new, last) {
        Ok(epoch) => epoch,
        Err(refused) => return Ok(refused),
    };
    let mut write = db.prepare_cached(
        "INSERT OR REPLACE INTO node (name, epoch, lease_ttl, lease_until, lease_boot, draining,
                                      joined_at, body)
         VALUES (?1, ?2, ?3, ?4 + ?3, ?5, ?6, ?7, ?8)",
    )?;
    write.execute(params![
        new.name.as_str(),
        epoch.0.cast_signed(),
        new.ttl.as_ms().cast_signed(),
        now.ms,
        now.boot,
        before.is_some_and(|node| node.draining),
        at.as_ms(),
        to_json(new),
    ])?;
    tell(db, &new.name, NodeTold::Joined(epoch), at)?;
    Ok(Joined::As(epoch))
}

pub(super) fn renew(db: &Connection, name: &NodeName, epoch: Epoch, now: LeaseNow) -> Result<bool> {
    let mut renew = db.prepare_cached(
        "UPDATE node SET lease_until = ?3 + lease_ttl
         WHERE name = ?1 AND epoch = ?2 AND lease_boot = ?4 AND lease_until > ?3",
    )?;
    Ok(renew.execute(params![name.as_str(), epoch.0.cast_signed(), now.ms, now.boot])? == 1)
}

pub(super) fn leave(
    db: &Connection,
    name: &NodeName,
    epoch: Epoch,
    at: Time,
    now: LeaseNow,
) -> Result<bool> {
    let mut leave = db.prepare_cached(
        "UPDATE node SET lease_until = 0
         WHERE name = ?1 AND epoch = ?2 AND lease_boot = ?4 AND lease_until > ?3",
    )?;
    let left = leave.execute(params![name.as_str(), epoch.0.cast_signed(), now.ms, now.boot])?;
    told_if(db, left == 1, name, NodeTold::Left, at)
}

pub(super) fn drain(db: &Connection, name: &NodeName, draining: bool, at: Time) -> Result<bool> {
    let mut drain = db.prepare_cached("UPDATE node SET draining = ?2 WHERE name = ?1")?;
    let is_there = drain.execute(params![name.as_str(), draining])? == 1;
    told_if(db, is_there, name, NodeTold::Draining(draining), at)
}

pub(super) fn forget(db: &Connection, name: &NodeName, at: Time, now: LeaseNow) -> Result<bool> {
    let mut delete = db.prepare_cached(
        "DELETE FROM node WHERE name = ?1 AND (lease_boot != ?3 OR lease_until <= ?2)",
    )?;
    let gone = delete.execute(params![name.as_str(), now.ms, now.boot])? == 1;
    told_if(db, gone, name, NodeTold::Forgotten, at)
}

fn told_if(
    db: &Connection,
    is_so: bool,
    name: &NodeName,
    told: NodeTold,
    at: Time,
) -> Result<bool> {
    if is_so {
        tell(db, name, told, at)?;
    }
    Ok(is_so)
}

fn tell(db: &Connection, name: &NodeName, told: NodeTold, at: Time) -> Result<()> {
    journal::append_of_nothing(db, at, EventKind::Node, &node_told::detail(name, told))
}

fn read(row: &Row<'_>, now: LeaseNow) -> Result<Node> {
    Ok(Node {
        new: from_json(row.get_ref(5)?.as_str()?, "node.body")?,
        epoch: Epoch(unsigned(row, 0)?),
        draining: row.get(1)?,
        joined_at: Time::from_ms(row.get(2)?),
        left: left(row.get(3)?, row.get(4)?, now),
    })
}
