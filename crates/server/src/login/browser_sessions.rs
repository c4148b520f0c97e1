//! Browsers that are logged in. Stored in a file, so that an open page continues to work when the
//! daemon was killed and started again. The file holds hashes of cookies, never a cookie.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use relight_core::time::Span;
use relight_runtime::os::{clock, process};
use serde::{Deserialize, Serialize};

use crate::tokens::Scope;
use crate::tokens::{TokenError, file, random_text};

/// An unused session ends after this.
const IDLE_MAX: Span = Span::from_secs(12 * 3600);
/// Every session ends after this.
pub(crate) const AGE_MAX: Span = Span::from_secs(7 * 24 * 3600);
/// So many at a time; the one that was idle longest goes first.
const SESSIONS_MAX: usize = 100;
/// How much the file may be behind in when a session was last used.
const SEEN_BEHIND_MAX: Span = Span::from_secs(600);
/// The file, in the home folder.
const FILE_NAME: &str = "logins.json";

/// Browsers that are logged in, by the hash of their cookie.
#[derive(Debug, Default)]
pub(crate) struct BrowserSessions {
    known: Mutex<HashMap<String, SavedLogin>>,
    /// None keeps them only in memory.
    file: Option<PathBuf>,
}

/// One browser that is logged in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BrowserSession {
    pub(crate) id: String,
    pub(crate) scope: Scope,
    /// Of what a page of ours sends with writes.
    pub(crate) csrf_hash: String,
}

/// What a browser gets when it logs in, this once. Neither tells anything of the other: a cookie goes to
/// every port of a host, and alone it must change nothing.
#[derive(Debug)]
pub(crate) struct Begun {
    /// The cookie's value.
    pub(crate) cookie: String,
    /// What a page of ours sends with writes.
    pub(crate) csrf: String,
}

/// A session as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct SavedLogin {
    id: String,
    scope: Scope,
    csrf_hash: String,
    /// The first token's number when it began; another token ends it.
    epoch: u64,
    /// The machine's boot by which the times count; another one ends it.
    boot: String,
    begun_ms: u64,
    seen_ms: u64,
    /// When it was last used, as the file has it.
    #[serde(skip)]
    written_ms: u64,
}

impl BrowserSessions {
    /// Those of an earlier daemon, as far as they last. An unreadable file logs all browsers out.
    pub(crate) fn open(home: &Path) -> Self {
        let path = home.join(FILE_NAME);
        let text = file::read(&path).ok().flatten().unwrap_or_default();
        let known: HashMap<String, SavedLogin> = serde_json::from_str(&text).unwrap_or_default();
        let here = |kept: &SavedLogin| kept.boot == process::boot_id();
        let known = known.into_iter().filter(|(_, kept)| here(kept));
        let known = known.map(|(key, kept)| {
            (
                key,
                SavedLogin {
                    written_ms: kept.seen_ms,
                    ..kept
                },
            )
        });
        Self {
            known: Mutex::new(known.collect()),
            file: Some(path),
        }
    }

    /// Begins one.
    pub(crate) fn begin(&self, scope: Scope, epoch: u64) -> Result<Begun, TokenError> {
        self.begin_at(scope, epoch, clock::boot_ms())
    }

    /// The session of this cookie, while it lasts.
    pub(crate) fn find(&self, secret: &str, epoch: u64) -> Option<BrowserSession> {
        self.find_at(secret, epoch, clock::boot_ms())
    }

    /// Ends the session of this cookie.
    pub(crate) fn end(&self, secret: &str) -> Result<(), TokenError> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.remove(&hash(secret));
        self.write(&mut known)
    }

    fn begin_at(&self, scope: Scope, epoch: u64, now_ms: u64) -> Result<Begun, TokenError> {
        let (cookie, csrf) = (random_text(), random_text());
        let kept = SavedLogin {
            id: random_text()[..8].to_owned(),
            scope,
            csrf_hash: hash(&csrf),
            epoch,
            boot: process::boot_id(),
            begun_ms: now_ms,
            seen_ms: now_ms,
            written_ms: now_ms,
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, kept| kept.lasts(epoch, now_ms));
        if known.len() >= SESSIONS_MAX {
            let oldest = known
                .iter()
                .min_by_key(|(_, kept)| kept.seen_ms)
                .map(|(key, _)| key);
            let oldest = oldest.cloned();
            oldest.map(|oldest| known.remove(&oldest));
        }
        known.insert(hash(&cookie), kept);
        self.write(&mut known)?;
        Ok(Begun { cookie, csrf })
    }

    fn find_at(&self, secret: &str, epoch: u64, now_ms: u64) -> Option<BrowserSession> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        // Found by the hash of what nobody can guess: the time tells nothing of it.
        let kept = known
            .get_mut(&hash(secret))
            .filter(|kept| kept.lasts(epoch, now_ms))?;
        kept.seen_ms = now_ms;
        let visit = kept.shown();
        if now_ms >= kept.written_ms + SEEN_BEHIND_MAX.as_ms() {
            // A file that cannot be written costs a login after the next start, nothing now.
            let _ = self.write(&mut known);
        }
        Some(visit)
    }

    fn write(&self, known: &mut HashMap<String, SavedLogin>) -> Result<(), TokenError> {
        known
            .values_mut()
            .for_each(|kept| kept.written_ms = kept.seen_ms);
        let Some(path) = &self.file else {
            return Ok(());
        };
        let text = serde_json::to_string(known).expect("sessions are plain JSON");
        file::write(path, text.as_bytes())
    }
}

impl SavedLogin {
    fn shown(&self) -> BrowserSession {
        let csrf_hash = self.csrf_hash.clone();
        BrowserSession {
            id: self.id.clone(),
            scope: self.scope,
            csrf_hash,
        }
    }

    fn lasts(&self, epoch: u64, now_ms: u64) -> bool {
        self.epoch == epoch
            && now_ms < self.begun_ms + AGE_MAX.as_ms()
            && now_ms < self.seen_ms + IDLE_MAX.as_ms()
    }
}

/// As a secret of a browser is kept.
pub(crate) fn hash(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_session_ends_when_idle_when_old_and_with_another_token() {
        let sessions = BrowserSessions::default();
        let (idle, age) = (IDLE_MAX.as_ms(), AGE_MAX.as_ms());
        let Begun { cookie, csrf } = sessions.begin_at(Scope::Admin, 1, 0).unwrap();
        assert_eq!(
            sessions.find_at(&cookie, 1, 5).unwrap().csrf_hash,
            hash(&csrf)
        );
        assert_eq!(sessions.find_at("another", 1, 5), None);
        assert_eq!(sessions.find_at(&cookie, 2, 5), None);
        assert_eq!(sessions.find_at(&cookie, 1, 5 + idle), None);
        let Begun { cookie, .. } = sessions.begin_at(Scope::Admin, 1, 0).unwrap();
        for now_ms in (0..age).step_by(usize::try_from(idle / 2).unwrap()) {
            assert!(sessions.find_at(&cookie, 1, now_ms).is_some());
        }
        assert_eq!(sessions.find_at(&cookie, 1, age), None);
        let Begun { cookie, .. } = sessions.begin_at(Scope::Admin, 1, 0).unwrap();
        sessions.end(&cookie).unwrap();
        assert_eq!(sessions.find_at(&cookie, 1, 0), None);
    }

    #[test]
    fn visits_do_not_pile_up() {
        let sessions = BrowserSessions::default();
        let Begun { cookie: first, .. } = sessions.begin_at(Scope::Read, 1, 0).unwrap();
        for at in 1..=SESSIONS_MAX as u64 {
            sessions.begin_at(Scope::Read, 1, at).unwrap();
        }
        assert_eq!(sessions.find_at(&first, 1, 200), None);
    }

    #[test]
    fn a_browser_session_outlives_the_daemon_and_its_file_opens_nothing() {
        let home = tempfile::tempdir().unwrap();
        let sessions = BrowserSessions::open(home.path());
        let Begun { cookie, csrf } = sessions.begin_at(Scope::Operate, 7, 1_000).unwrap();
        let later = 1_000 + SEEN_BEHIND_MAX.as_ms();
        let visit = sessions.find_at(&cookie, 7, later);
        assert!(visit.is_some());
        drop(sessions);
        let text = std::fs::read_to_string(home.path().join(FILE_NAME)).unwrap();
        assert!(!text.contains(&cookie) && !text.contains(&csrf), "{text}");
        assert!(text.contains(&format!("\"seen_ms\":{later}")), "{text}");
        let again = BrowserSessions::open(home.path());
        assert_eq!(again.find_at(&cookie, 8, later), None);
        assert_eq!(again.find_at(&cookie, 7, later), visit);
        again.end(&cookie).unwrap();
        assert_eq!(
            BrowserSessions::open(home.path()).find_at(&cookie, 7, later),
            None
        );
    }

    #[test]
    fn visits_of_another_boot_and_a_damaged_file_let_nobody_in() {
        let home = tempfile::tempdir().unwrap();
        let Begun { cookie, .. } = BrowserSessions::open(home.path())
            .begin_at(Scope::Admin, 7, 0)
            .unwrap();
        let path = home.path().join(FILE_NAME);
        let text = std::fs::read_to_string(&path).unwrap();
        for other in [
            text.replace(&process::boot_id(), "another"),
            "{".to_owned(),
            String::new(),
        ] {
            file::write(&path, other.as_bytes()).unwrap();
            assert_eq!(
                BrowserSessions::open(home.path()).find_at(&cookie, 7, 1),
                None,
                "{other}"
            );
        }
    }
}
