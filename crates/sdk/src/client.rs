//! An open store, for a program of another language. `task.rs`, `session.rs` and `agent.rs` add what
//! begins handles.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use relight_core::checkpoint::{Limits, check_unambiguous};
use relight_core::error_code::{ErrorCode, Refused};
use relight_runtime::Relight;
use relight_runtime::operations::table::OperationCaller;
use serde_json::{Map, Value};
use tokio::runtime::{Builder, Handle, Runtime};

use crate::fork_guard::{OfProcess, OpenedHere};
use crate::open::{OpenOptions, OpenedStore, invalid};
use crate::waiting;

/// Threads for what happens in the background and for asynchronous callers.
const WORKERS: usize = 2;
/// What is under way when the last handle goes has so long to end.
const SHUTDOWN_MAX: Duration = Duration::from_secs(2);

/// `serde_json` reads nothing that is nested deeper.
const JSON_DEPTH_MAX: usize = 128;

/// An open store. Cheap to clone; closed with the last clone and the last handle made from it.
#[derive(Debug, Clone)]
pub struct Client {
    shared: Arc<OfProcess<SharedHandles>>,
}

/// In the order in which it is dropped.
#[derive(Debug)]
pub(crate) struct SharedHandles {
    pub(crate) relight: Relight,
    pub(crate) caller: OperationCaller,
    runtime: OwnRuntime,
    _here: OpenedHere,
}

#[derive(Debug)]
struct OwnRuntime(Option<Runtime>);

impl Drop for OwnRuntime {
    fn drop(&mut self) {
        let Some(runtime) = self.0.take() else { return };
        match Handle::try_current() {
            // On a thread of a runtime nothing may be waited for.
            Ok(_) => runtime.shutdown_background(),
            Err(_) => runtime.shutdown_timeout(SHUTDOWN_MAX),
        }
    }
}

impl Client {
    /// Opens the store that the command line would use, creating it when there is none. Blocks.
    pub fn open(options: OpenOptions) -> Result<Self, Refused> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(WORKERS)
            .thread_name("relight-sdk")
            .enable_all()
            .build()
            .map_err(|error| {
                let text = format!("cannot start the threads of the client: {error}");
                Refused::without_hint(ErrorCode::IO, text)
            })?;
        let runtime = OwnRuntime(Some(runtime));
        let OpenedStore {
            relight,
            caller,
            here,
        } = runtime.handle().block_on(options.open())?;
        let shared = SharedHandles {
            relight,
            caller,
            runtime,
            _here: here,
        };
        Ok(Self {
            shared: Arc::new(OfProcess::new(shared)),
        })
    }

    pub(crate) fn shared(&self) -> Result<&SharedHandles, Refused> {
        self.shared.get()
    }

    /// The folder of the state.
    pub fn home(&self) -> Result<&Path, Refused> {
        Ok(&self.shared()?.caller.context.home)
    }

    /// Where futures of this client run. Refused in a forked process.
    pub fn runtime(&self) -> Result<&Handle, Refused> {
        Ok(self.shared()?.runtime.handle())
    }

    /// Waits for a future on this thread; `interrupted` is asked from time to time whether to give up.
    pub fn wait<T, E: From<Refused>>(
        &self,
        future: impl Future<Output = T>,
        interrupted: impl FnMut() -> Result<(), E>,
    ) -> Result<T, E> {
        waiting::wait(self.runtime()?, future, interrupted)
    }

    /// Runs an operation by its name: JSON in, the JSON of the command line out.
    pub async fn call(&self, name: &str, given: Map<String, Value>) -> Result<Value, Refused> {
        self.shared()?.caller.call(name, given).await
    }

    /// The same with JSON as text; nothing is an empty object.
    pub async fn call_text(&self, name: &str, given: &str) -> Result<String, Refused> {
        let given = match given.trim() {
            "" => Map::new(),
            given => read_object(given)?,
        };
        Ok(self.call(name, given).await?.to_string())
    }
}

/// A request as JSON. One that readers understand differently is refused, as by every front.
pub fn read_object(text: &str) -> Result<Map<String, Value>, Refused> {
    let limits = Limits {
        bytes_max: usize::MAX,
        depth_max: JSON_DEPTH_MAX,
    };
    check_unambiguous(text.as_bytes(), limits)
        .map_err(|error| invalid(format!("the request has a {error}")))?;
    serde_json::from_str(text).map_err(invalid)
}

impl OwnRuntime {
    fn handle(&self) -> &Handle {
        self.0
            .as_ref()
            .expect("it is taken when it is dropped")
            .handle()
    }
}
