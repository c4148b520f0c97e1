//! The bare SQLite binaries, and which of them a verb is held against: the one that syncs as often.

use std::path::Path;

use crate::call::Call;
use crate::sinks::Table;
use crate::stage::Stage;
use crate::verbs::{Verb, Writes};

/// The calls whose syncs are counted; their numbers are out of the rounds' reach.
const COUNTED: std::ops::Range<usize> = 1_000_000..1_000_004;

/// A bare SQLite binary, with as many syncs as it makes.
pub(crate) struct Insert {
    pub(crate) name: String,
    pub(crate) call: Call,
    syncs: Option<f64>,
}

/// All manners of writing as much as the verb does.
pub(crate) fn inserts(stage: &Stage, verb: &Verb, folder: &Path) -> anyhow::Result<Vec<Insert>> {
    let manners: &[(&str, &str)] = match verb.writes {
        Writes::Nothing => &[],
        Writes::Store => &[("insert", ""), ("insert, WAL kept", "--keep-wal")],
        Writes::StoreAndFile => &[
            ("insert and file", "--file ./bare.json"),
            ("insert and file, WAL kept", "--keep-wal --file ./bare.json"),
        ],
    };
    let insert = |(number, (name, line)): (usize, &(&str, &str))| {
        let database = folder.join(format!("bare-{number}.db"));
        drop(Table::open(&database)?);
        let call = Call::new(stage.floor("floor-sqlite-insert"), folder)
            .argument(database.to_string_lossy())
            .line(line, 0);
        // The first one makes the WAL, which the others find.
        call.stdout()?;
        let syncs = mean_syncs(|_| Ok(call.clone()))?;
        Ok(Insert {
            name: format!("{name} ({})", syncs_text(syncs)),
            call,
            syncs,
        })
    };
    manners.iter().enumerate().map(insert).collect()
}

/// The floor with as many syncs as the verb, or the next fewer: never one that syncs more,
/// unless all do. Uncounted, the last manner is the strictest: it keeps the WAL.
pub(crate) fn closest(floors: &[Insert], verb_syncs: Option<f64>) -> Option<&Insert> {
    let Some(verb_syncs) = verb_syncs else {
        return floors.last();
    };
    let syncs = |floor: &&Insert| floor.syncs.unwrap_or(0.0);
    let not_more = floors.iter().filter(|floor| syncs(floor) <= verb_syncs);
    let most = not_more.max_by(|one, other| syncs(one).total_cmp(&syncs(other)));
    most.or(floors
        .iter()
        .min_by(|one, other| syncs(one).total_cmp(&syncs(other))))
}

pub(crate) fn mean_syncs(
    call: impl Fn(usize) -> anyhow::Result<Call>,
) -> anyhow::Result<Option<f64>> {
    let mut all = 0;
    for number in COUNTED {
        match call(number)?.syncs()? {
            Some(syncs) => all += syncs,
            None => return Ok(None),
        }
    }
    Ok(Some(all as f64 / COUNTED.len() as f64))
}

pub(crate) fn syncs_text(syncs: Option<f64>) -> String {
    syncs.map_or("? syncs".into(), |syncs| {
        format!("{} syncs", (syncs * 10.0).round() / 10.0)
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Insert, closest};
    use crate::call::Call;

    fn name_of_closest(verb_syncs: Option<f64>) -> String {
        let insert = |name: &str, syncs| Insert {
            name: name.into(),
            call: Call::new(name, Path::new(".")),
            syncs: Some(syncs),
        };
        let floors = [insert("folded", 5.0), insert("kept", 2.0)];
        closest(&floors, verb_syncs).unwrap().name.clone()
    }

    #[test]
    fn a_verb_is_never_held_against_a_floor_that_syncs_more() {
        assert_eq!(name_of_closest(Some(6.0)), "folded");
        assert_eq!(name_of_closest(Some(5.0)), "folded");
        assert_eq!(name_of_closest(Some(4.9)), "kept");
        assert_eq!(
            name_of_closest(Some(1.0)),
            "kept",
            "both sync more: the lesser"
        );
        assert_eq!(name_of_closest(None), "kept");
    }
}
