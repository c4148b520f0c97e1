//! Receives the clients of a supervisor's socket: each in its own task, their requests in one queue.
//! The daemon's clients come over HTTP and are let in elsewhere; their requests enter here too.

use relight_core::ids::AgentName;
use tokio::sync::{mpsc, oneshot};

use super::control::{Changed, Client, Control, RefusedCode, Reply, Request, Signs, Status};
use super::supervisor::{AgentView, Answer, Supervisor};

/// Most requests that wait to be looked at.
const QUEUE_MAX: usize = 64;

/// A request and where its answer goes.
#[derive(Debug)]
pub struct Call {
    /// What is asked.
    pub request: Request,
    /// Where the answer goes.
    pub reply: oneshot::Sender<Reply>,
}

/// Requests as they come in.
#[derive(Debug)]
pub struct Reception(mpsc::Receiver<Call>);

impl Reception {
    /// Lets clients in from now on.
    pub fn open(control: Control) -> Self {
        let (calls, waiting) = mpsc::channel(QUEUE_MAX);
        tokio::spawn(let_in(control, calls));
        Self(waiting)
    }

    /// For clients that somebody else lets in, in any thread.
    pub fn channel() -> (mpsc::Sender<Call>, Self) {
        let (calls, waiting) = mpsc::channel(QUEUE_MAX);
        (calls, Self(waiting))
    }

    /// The next request. Nothing is lost when it is dropped.
    pub async fn next(&mut self) -> Call {
        match self.0.recv().await {
            Some(call) => call,
            None => std::future::pending().await,
        }
    }
}

async fn let_in(control: Control, calls: mpsc::Sender<Call>) {
    while !calls.is_closed() {
        let client = tokio::select! {
            client = control.accept() => client,
            () = calls.closed() => return,
        };
        match client {
            Ok(client) => {
                tokio::spawn(attend(client, calls.clone()));
            }
            // Out of descriptors, most likely: those who are in will leave.
            Err(_) => tokio::time::sleep(std::time::Duration::from_millis(100)).await,
        }
    }
}

async fn attend(mut client: Client, calls: mpsc::Sender<Call>) {
    while let Ok(Some(request)) = client.request().await {
        let (reply, answer) = oneshot::channel();
        if calls.send(Call { request, reply }).await.is_err() {
            return;
        }
        let answer = answer.await.unwrap_or_else(|_| Reply::ending());
        if client.reply(&answer).await.is_err() {
            return;
        }
    }
}

impl Supervisor {
    /// Answers what concerns one agent, or all of them without a change; hands back the rest.
    pub fn answer(&self, call: Call) -> Option<Call> {
        let (name, answered) = match &call.request {
            Request::Start { agent } => (agent, self.start(agent)),
            Request::Stop { agent } => (agent, self.stop(agent)),
            Request::Restart { agent } => (agent, self.restart(agent)),
            Request::Status => {
                let _ = call.reply.send(Reply::ok(&self.status()));
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
                let _ = call.reply.send(Reply::error(RefusedCode::NotFound, message, hint));
            }
        }
        None
    }

    /// What is known beyond the store.
    pub fn status(&self) -> Status {
        let signs = |view: AgentView| {
            view.phase?;
            Some(Signs {
                agent: view.agent.name,
                last_sign_at: view.last_sign,
                waiting_until: view.waiting_until,
                waits_for_work: view.waits_for_work,
                status: view.status,
            })
        };
        let agents = self.beats().views().into_iter().filter_map(signs).collect();
        Status { pid: std::process::id(), agents }
    }
}

async fn pass_on(
    agent: AgentName,
    answered: oneshot::Receiver<Answer>,
    reply: oneshot::Sender<Reply>,
) {
    let answer = match answered.await {
        Ok(Answer { problem: Some(problem), hint, has_ended, .. }) => {
            let code = if has_ended { RefusedCode::Ended } else { RefusedCode::Conflict };
            Reply::error(code, problem, hint)
        }
        Ok(answer) => Reply::ok(&Changed {
            agent,
            previous_state: answer.previous,
            state: answer.state,
            task_cancelled: answer.task_cancelled,
        }),
        Err(_) => Reply::ending(),
    };
    let _ = reply.send(answer);
}
