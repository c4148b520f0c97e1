//! Who sent a request, as the guard found out.

use crate::tokens::Scope;

/// How a caller came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Via {
    Socket,
    Token,
    Cookie,
    /// Another node of the fleet, which reads one thing.
    Node,
}

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) via: Via,
    pub(crate) scope: Scope,
    /// Of what a page must send with writes.
    pub(crate) csrf_hash: Option<String>,
    /// Apart from others: answers that are remembered belong to whoever asked.
    pub(crate) id: String,
}
