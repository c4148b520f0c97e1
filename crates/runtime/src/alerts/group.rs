//! Groups alerts that happened at about the same time.

use relight_core::alert::AlertKind;

use super::message::{Item, Message};

/// Up to this many alerts of one kind are sent separately.
const APART_MAX: usize = 3;

/// The messages for these alerts, oldest first; more than three of one kind become one.
/// Deterministic.
pub(super) fn messages(store_id: &str, items: Vec<Item>) -> Vec<Message> {
    let count = |kind: AlertKind| items.iter().filter(|item| item.alert.kind == kind).count();
    let crowded: Vec<AlertKind> = AlertKind::ALL
        .into_iter()
        .filter(|kind| count(*kind) > APART_MAX)
        .collect();
    let mut groups: Vec<Vec<Item>> = Vec::new();
    for item in items {
        let kind = item.alert.kind;
        let is_crowded = crowded.contains(&kind);
        let group = groups
            .iter_mut()
            .find(|group| is_crowded && group[0].alert.kind == kind);
        match group {
            Some(group) => group.push(item),
            None => groups.push(vec![item]),
        }
    }
    groups
        .into_iter()
        .map(|group| Message::of(store_id, group))
        .collect()
}

#[cfg(test)]
mod tests {
    use relight_core::alert::{Alert, Subject};
    use relight_core::time::Time;

    use super::*;

    fn counts(kinds: &[AlertKind]) -> Vec<(AlertKind, usize)> {
        let items = kinds.iter().zip(1..).map(|(kind, event)| Item {
            event,
            at: Time::from_ms(0),
            alert: Alert::new(*kind, Subject::Store, "x"),
        });
        let messages = messages("s", items.collect());
        messages
            .iter()
            .map(|message| (message.kind, message.count))
            .collect()
    }

    #[test]
    fn more_than_three_of_a_kind_are_one_message() {
        use AlertKind::{Blocked, Stale};
        assert_eq!(counts(&[]), []);
        assert_eq!(
            counts(&[Stale, Stale, Stale]),
            [(Stale, 1), (Stale, 1), (Stale, 1)]
        );
        assert_eq!(
            counts(&[Stale, Blocked, Stale, Stale, Stale]),
            [(Stale, 4), (Blocked, 1)]
        );
    }
}
