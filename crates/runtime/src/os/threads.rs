//! Blocking work on threads of its own. Where Tokio's pool would panic, because the host refuses a
//! thread (`ulimit -u`), this waits until there is one.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::oneshot;

type Job = Box<dyn FnOnce() + Send>;

/// Maximum pause before a refused thread is tried again.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Runs the work on a thread and waits for its result; none when it panicked.
pub async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    run_on(spawn, work).await
}

/// The same for work that must not wait: if the host refuses a thread, it blocks this one.
pub async fn run_at_once<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let on_any = |job: &SharedJob| {
        if spawn(job).is_err() {
            job.run();
        }
        Ok(())
    };
    run_on(on_any, work).await
}

/// Starts the work and does not wait for it.
pub fn start<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) {
    tokio::spawn(run(work));
}

/// Checks that the host allows so many more threads.
pub fn check_room(count: usize) -> io::Result<()> {
    let (hold, held) = std::sync::mpsc::channel::<()>();
    let held = Arc::new(Mutex::new(held));
    let wait = |held: &Arc<Mutex<std::sync::mpsc::Receiver<()>>>| {
        let held = Arc::clone(held);
        std::thread::Builder::new().spawn(move || drop(held.lock().map(|held| held.recv())))
    };
    let waiting: Vec<_> = (0..count).map(|_| wait(&held)).collect();
    drop(hold);
    for thread in waiting {
        let _ = thread?.join();
    }
    Ok(())
}

/// Work that is still there when its thread was refused.
#[derive(Clone)]
struct SharedJob(Arc<Mutex<Option<Job>>>);

impl SharedJob {
    fn run(&self) {
        let job = self
            .0
            .lock()
            .expect("nothing panics while it is locked")
            .take();
        if let Some(job) = job {
            job();
        }
    }
}

fn spawn(job: &SharedJob) -> io::Result<()> {
    let job = job.clone();
    let named = std::thread::Builder::new().name("relight-blocking".to_owned());
    named.spawn(move || job.run()).map(drop)
}

async fn run_on<T: Send + 'static>(
    spawn: impl Fn(&SharedJob) -> io::Result<()>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (done, result) = oneshot::channel();
    let job: Job = Box::new(move || drop(done.send(work())));
    let job = SharedJob(Arc::new(Mutex::new(Some(job))));
    let mut pause = Duration::from_millis(10);
    while spawn(&job).is_err() {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
    result.await.ok()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn work_whose_thread_is_refused_is_done_when_there_is_one() {
        let refusals = Cell::new(3);
        let sometimes = |job: &SharedJob| match refusals.get() {
            0 => spawn(job),
            left => {
                refusals.set(left - 1);
                Err(io::ErrorKind::WouldBlock.into())
            }
        };
        assert_eq!(run_on(sometimes, || 7).await, Some(7));
        assert_eq!(refusals.get(), 0);
        assert_eq!(run(|| -> u8 { panic!("as tested") }).await, None);
        assert_eq!(run_at_once(|| 7).await, Some(7));
        assert!(check_room(2).is_ok());
    }
}
