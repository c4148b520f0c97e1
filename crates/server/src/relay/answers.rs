//! What became of writes, by their ids: one that is asked for again, because its answer was lost on the
//! way, is not done again.
//!
//! The promise: within one life of the daemon, for the last few thousand writes. Whose daemon died asks
//! the store itself (`read_back`).

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use axum::body::Bytes;
use tokio::sync::watch;

/// A caller has one write under way, and asks again within seconds.
const IDS_MAX: usize = 4_096;

/// What became of a write; none while it is being done.
pub(super) type Became = watch::Receiver<Option<Bytes>>;

/// What became of writes, by their ids.
#[derive(Debug, Default)]
pub(super) struct Answers(Mutex<AnswersById>);

#[derive(Debug, Default)]
struct AnswersById {
    by_id: HashMap<String, Became>,
    /// Oldest first.
    order: VecDeque<String>,
}

/// Whether a write was seen before.
#[derive(Debug)]
pub(super) enum WriteStatus {
    /// Never: whoever asks does it, and says here what it came to.
    New(watch::Sender<Option<Bytes>>, Became),
    /// It is being done, or is done.
    Before(Became),
}

impl Answers {
    /// From now on the write with this id is under way.
    pub(super) fn look(&self, id: &str) -> WriteStatus {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(became) = known.by_id.get(id) {
            return WriteStatus::Before(became.clone());
        }
        let (tell, became) = watch::channel(None);
        known.by_id.insert(id.to_owned(), became.clone());
        known.order.push_back(id.to_owned());
        if known.order.len() > IDS_MAX
            && let Some(oldest) = known.order.pop_front()
        {
            known.by_id.remove(&oldest);
        }
        WriteStatus::New(tell, became)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_new_once_and_the_oldest_are_forgotten() {
        let answers = Answers::default();
        assert!(matches!(answers.look("a"), WriteStatus::New(..)));
        assert!(matches!(answers.look("a"), WriteStatus::Before(_)));
        for n in 0..IDS_MAX {
            assert!(
                matches!(answers.look(&n.to_string()), WriteStatus::New(..)),
                "{n}"
            );
        }
        assert!(matches!(answers.look("a"), WriteStatus::New(..)));
        assert!(answers.0.lock().unwrap().by_id.len() <= IDS_MAX);
    }
}
