//! The one browser of all tests: started by the first who wants it, ended by the last.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::driver::Driver;
use crate::page::Page;

static SHARED: Mutex<Weak<Browser>> = Mutex::new(Weak::new());

/// A browser, used by one test at a time.
pub(crate) struct Browser {
    pub(crate) driver: Driver,
    turn: Mutex<()>,
}

impl Browser {
    /// The one that others use, or a new one; none, and a loud word, when there is no Chromium.
    pub(crate) fn shared() -> Option<Arc<Self>> {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(browser) = shared.upgrade() {
            return Some(browser);
        }
        let Some(driver) = Driver::start() else {
            eprintln!("SKIPPED: there is no chromium or no chromedriver (chromium-driver) here");
            return None;
        };
        let browser = Arc::new(Self {
            driver,
            turn: Mutex::new(()),
        });
        *shared = Arc::downgrade(&browser);
        Some(browser)
    }

    /// A page that knows nothing of those before, once it is our turn.
    pub(crate) fn page(&self) -> Page<'_> {
        let turn: MutexGuard<'_, ()> = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        Page::open(&self.driver, turn)
    }
}
