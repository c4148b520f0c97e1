//! Serves the clients of a supervisor's socket: each in its own task, their requests in one queue.
//! Requests of the daemon's HTTP clients enter the same queue.

use relight_core::error_code::ErrorCode;
use relight_core::ids::AgentName;
use tokio::sync::{mpsc, oneshot};

use super::control::{
    AgentSigns, Changed, Control, ControlClient, ControlReply, Request, SupervisorStatus,
};
use super::supervisor::{AgentSnapshot, StateChangeResult, Supervisor};

/// Maximum number of queued requests.
const QUEUE_MAX: usize = 64;

/// A request and the sender of its reply.
#[derive(Debug)]
pub struct ControlCall {
    /// The request.
    pub request: Request,
    /// The sender of the reply.
    pub reply: oneshot::Sender<ControlReply>,
}

/// The queue of requests.
#[derive(Debug)]
pub struct Reception(mpsc::Receiver<ControlCall>);

impl Reception {
    /// Starts to accept clients.
    pub fn open(control: Control) -> Self {
        let (calls, waiting) = mpsc::channel(QUEUE_MAX);
        tokio::spawn(let_in(control, calls));
        Self(waiting)
    }

    /// A queue for clients that are accepted elsewhere, on any thread.
    pub fn channel() -> (mpsc::Sender<ControlCall>, Self) {
        let (calls, waiting) = mpsc::channel(QUEUE_MAX);
        (calls, Self(waiting))
    }

    /// The next request. Cancel-safe.
    pub async fn next(&mut self) -> ControlCall {
        match self.0.recv().await {
            Some(call) => call,
            None => std::future::pending().await,
        }
    }
}

async fn let_in(control: Control, calls: mpsc::Sender<ControlCall>) {
    while !calls.is_closed() {
        let client = tokio::select! {
            client = control.accept() => client,
            () = calls.closed() => return,
        };
        match client {
            Ok(client) => {
                tokio::spawn(attend(client, calls.clone()));
            }
            // Probably out of descriptors; wait for clients to leave.
            Err(_) => tokio::time::sleep(std::time::Duration::from_millis(100)).await,
        }
    }
}

async fn attend(mut client: ControlClient, calls: mpsc::Sender<ControlCall>) {
    while let Ok(Some(request)) = client.request().await {
        let (reply, answer) = oneshot::channel();
        if calls.send(ControlCall { request, reply }).await.is_err() {
            return;
        }
        let answer = answer.await.unwrap_or_else(|_| ControlReply::ending());
        if client.reply(&answer).await.is_err() {
            return;
        }
    }
}

impl Supervisor {
    /// Answers requests about one agent and read-only ones; returns the rest. A supervisor that is
    /// ending begins nothing: nobody would be there to stop it.
    pub fn answer(&self, call: ControlCall, is_ending: bool) -> Option<ControlCall> {
        if is_ending && call.request.begins_something() {
            let text = "the supervisor is ending";
            let _ = call
                .reply
                .send(ControlReply::error(ErrorCode::CONTENDED, text, None));
            return None;
        }
        let (name, answered) = match &call.request {
            Request::Start { agent } => (agent, self.start(agent)),
            Request::Stop { agent } => (agent, self.stop(agent)),
            Request::Restart { agent } => (agent, self.restart(agent)),
            Request::Status => {
                let _ = call.reply.send(ControlReply::ok(&self.status()));
                return None;
            }
            Request::Down { .. }
            | Request::Register(_)
            | Request::Unregister { .. }
            | Request::Reload
            | Request::Recover { .. } => return Some(call),
        };
        let name = name.clone();
        match answered {
            Some(answered) => {
                tokio::spawn(pass_on(name, answered, call.reply));
            }
            None => {
                let message = format!("agent {name} is not supervised here");
                let hint = Some("relight ps shows all agents".to_owned());
                let code = ErrorCode::NOT_SUPERVISED;
                let _ = call.reply.send(ControlReply::error(code, message, hint));
            }
        }
        None
    }

    /// The live status.
    pub fn status(&self) -> SupervisorStatus {
        let agents = self
            .beats()
            .views()
            .into_iter()
            .filter_map(AgentSigns::of)
            .collect();
        SupervisorStatus {
            pid: std::process::id(),
            agents,
            url: None,
            version: None,
        }
    }
}

impl AgentSigns {
    /// Of an agent with a live attempt.
    pub(crate) fn of(view: AgentSnapshot) -> Option<Self> {
        Some(Self {
            phase: Some(view.phase?.to_owned()),
            agent: view.agent.name,
            last_sign_at: view.last_sign,
            waiting_until: view.waiting_until,
            waits_for_work: view.waits_for_work,
            status: view.status,
        })
    }
}

async fn pass_on(
    agent: AgentName,
    answered: oneshot::Receiver<StateChangeResult>,
    reply: oneshot::Sender<ControlReply>,
) {
    let answer = match answered.await {
        Ok(StateChangeResult {
            problem: Some(problem),
            hint,
            has_ended,
            ..
        }) => {
            let code = if has_ended {
                ErrorCode::ENDED
            } else {
                ErrorCode::CONTENDED
            };
            ControlReply::error(code, problem, hint)
        }
        Ok(answer) => ControlReply::ok(&Changed::new(
            agent,
            answer.previous,
            answer.state,
            answer.task_cancelled,
        )),
        Err(_) => ControlReply::ending(),
    };
    let _ = reply.send(answer);
}
