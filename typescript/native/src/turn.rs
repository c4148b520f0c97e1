//! A turn of a session that the program runs.

use std::sync::{Arc, Mutex, OnceLock};

use napi::Result;
use napi_derive::napi;
use relight_sdk::{Client, ErrorCode, Refused, TurnHandle, TurnRequest, read_object};

use crate::bridge::{Bridge, lock};
use crate::client::{NativeClient, opened, thrown};

/// A turn; none before it was begun and after it was ended.
#[napi]
pub struct NativeTurn {
    bridge: Arc<Bridge>,
    client: Arc<OnceLock<Client>>,
    turn: Arc<Mutex<Option<TurnHandle>>>,
}

#[napi]
impl NativeTurn {
    /// Makes the handle; nothing is asked of the store.
    #[napi(constructor)]
    pub fn new(client: &NativeClient) -> Self {
        Self {
            bridge: Arc::clone(&client.bridge),
            client: Arc::clone(&client.client),
            turn: Arc::default(),
        }
    }

    /// Marks the turn. On disk when it is settled.
    #[napi]
    pub fn begin(&self, number: u32, request: String) -> Result<()> {
        let (client, slot) = (opened(&self.client)?.clone(), Arc::clone(&self.turn));
        self.bridge.spawn(&client.clone(), number, async move {
            let request = TurnRequest::read(read_object(&request)?)?;
            let turn = client.begin_turn(request).await?;
            let begun = turn.begun().to_string();
            *lock(&slot) = Some(turn);
            Ok(Some(begun))
        });
        Ok(())
    }

    /// Ends the turn.
    #[napi]
    pub fn end(&self, number: u32) -> Result<()> {
        let turn = lock(&self.turn).take().ok_or_else(|| {
            let hint = "a turn ends once; begin a new one";
            thrown(&Refused::new(
                ErrorCode::CONFLICT,
                "this turn has ended",
                hint,
            ))
        })?;
        self.bridge
            .spawn(opened(&self.client)?, number, async move {
                turn.end().await?;
                Ok(None)
            });
        Ok(())
    }

    /// Gives the turn up if it was not ended.
    #[napi]
    pub fn close(&self) {
        drop(lock(&self.turn).take());
    }
}
