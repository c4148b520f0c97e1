//! The budget of the store: what its agents spend is read from the journal, and a mark in the store says
//! until when nothing is started. `core::store_budget` decides.

use relight_core::alert::Alert;
use relight_core::event::EventKind;
use relight_core::store_budget::{Overspent, SPENDING_KINDS, Spending, StoreBudget, spent_in};
use relight_core::time::Time;
use relight_store::{EventQuery, Store, StoreError, StoreEvent};
use serde_json::Value;
use tokio::sync::{Mutex, watch};

use crate::os::clock;

/// The name of the mark among the store's small records.
const KEPT_NAME: &str = "budget";
/// Events of the journal, of any kind, that the first reading looks back at most.
const LOOK_BACK_MAX: u64 = 1_000_000;
const PAGE: usize = 1_000;
/// How often the mark is written again because another node was faster.
const ROUNDS_MAX: usize = 100;

/// What a supervisor knows of the budget and of what was spent.
#[derive(Debug, Default)]
pub(super) struct BudgetWatch {
    budget: watch::Sender<StoreBudget>,
    overspent: watch::Sender<Option<Overspent>>,
    journal: Mutex<SpendingReader>,
}

/// What was read of the journal.
#[derive(Debug, Default)]
struct SpendingReader {
    /// The budget that it was read for; none before the first time.
    budget: Option<StoreBudget>,
    after: u64,
    spending: Spending,
}

/// Until when nothing is started, if the budget of the store is spent.
pub(crate) async fn overspent_until(store: &dyn Store) -> Result<Option<Overspent>, StoreError> {
    let kept = store.kept(KEPT_NAME).await?;
    let mark: Option<Overspent> = kept.and_then(|kept| serde_json::from_value(kept).ok());
    Ok(mark.filter(|mark| mark.until > clock::now()))
}

impl BudgetWatch {
    pub(super) fn set(&self, budget: StoreBudget) {
        self.budget.send_if_modified(|known| {
            let differs = *known != budget;
            *known = budget;
            differs
        });
    }

    /// Reports a new budget.
    pub(super) fn budget(&self) -> watch::Receiver<StoreBudget> {
        self.budget.subscribe()
    }

    /// Whether it is spent, as far as this process knows.
    pub(super) fn overspent(&self) -> Option<Overspent> {
        self.overspent.borrow().clone()
    }

    /// Reads what was spent since the last time. Writes the mark, and the alert, where that changes
    /// something.
    pub(super) async fn read(&self, store: &dyn Store) -> Result<Option<Overspent>, StoreError> {
        let budget = *self.budget.borrow();
        let mut journal = self.journal.lock().await;
        let is_first = journal.budget.is_none();
        if budget.is_unlimited() && !is_first && self.overspent().is_none() {
            return Ok(None);
        }
        let now = clock::now();
        if !budget.is_unlimited() {
            journal.read(store, budget, now).await?;
        }
        journal.budget = Some(budget);
        let found = budget.overspent(&journal.spending, now);
        if is_first || found != self.overspent() {
            mark(store, found.as_ref()).await?;
            self.overspent.send_replace(found.clone());
        }
        Ok(found)
    }
}

impl SpendingReader {
    async fn read(
        &mut self,
        store: &dyn Store,
        budget: StoreBudget,
        now: Time,
    ) -> Result<(), StoreError> {
        // A longer period counts what was forgotten.
        if self.budget.is_none_or(|known| known.period < budget.period) {
            self.spending = Spending::default();
            self.after = store.newest_event().await?.saturating_sub(LOOK_BACK_MAX);
        }
        let oldest = budget.oldest(now);
        loop {
            let query = EventQuery {
                after: self.after,
                before: None,
                task: None,
                agent: None,
                kinds: SPENDING_KINDS.to_vec(),
                limit: PAGE,
                newest: false,
            };
            let events = store.events(query).await?;
            for event in &events {
                self.after = event.id;
                if let Some(spent) = spent_in(event).filter(|_| event.at >= oldest) {
                    self.spending.add(event.at, spent);
                }
            }
            if events.len() < PAGE {
                self.spending.forget_before(oldest);
                return Ok(());
            }
            tokio::task::yield_now().await;
        }
    }
}

/// Writes the mark. The alert comes with the first mark of a time in which the budget is spent.
async fn mark(store: &dyn Store, overspent: Option<&Overspent>) -> Result<(), StoreError> {
    let after = overspent.map_or(Value::Null, |overspent| {
        serde_json::to_value(overspent).expect("a mark is plain JSON")
    });
    for _ in 0..ROUNDS_MAX {
        let before = store.kept(KEPT_NAME).await?;
        if before.clone().unwrap_or_default() == after {
            return Ok(());
        }
        let is_known = overspent_until(store).await?.is_some();
        let told = overspent.filter(|_| !is_known).map(|overspent| StoreEvent {
            at: clock::now(),
            kind: EventKind::Alert,
            detail: Alert::store_overspent(&overspent.why, overspent.until).detail(),
        });
        let told = told.into_iter().collect();
        if store
            .keep_and_tell(KEPT_NAME, before, after.clone(), told)
            .await?
        {
            return Ok(());
        }
    }
    Err(StoreError::Busy {
        place: "the mark of the budget".to_owned(),
    })
}
