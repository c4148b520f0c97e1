//! Boxed futures, for functions that other crates await.
//!
//! The compiler generates the body of a future again in every crate that awaits it, together with all that
//! it awaits in turn. Behind a box it is generated once: smaller binaries, shorter builds.

use std::pin::Pin;

/// The attribute of an `async fn` that other crates await.
pub(crate) use async_recursion::async_recursion as boxed;

/// The same where the attribute does not know the lifetimes.
pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
