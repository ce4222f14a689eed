//! A turn's hold on the client that prompted it, through its comings and goings.

use std::sync::Arc;
use std::time::Duration;

use domain::CallId;
use tokio::sync::watch;

use super::{ClientError, ClientSide, Offers};

/// Where the client of a turn sits. What it offers is fixed when the turn starts; if it leaves,
/// the seat is kept for it, and for nobody else. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ClientSeat {
    offers: Offers,
    wait: Duration,
    taken_by: Arc<watch::Sender<Arc<dyn ClientSide>>>,
    /// The call as which all that happens is shown: the client knows no other.
    shown_as: Option<CallId>,
}

impl ClientSeat {
    /// A seat for `client`; a call that finds it empty waits for `wait`.
    #[must_use]
    pub fn new(client: Arc<dyn ClientSide>, wait: Duration) -> Self {
        Self {
            offers: client.offers(),
            wait,
            taken_by: Arc::new(watch::Sender::new(client)),
            shown_as: None,
        }
    }

    /// The same seat for whoever works on `call`: the client is shown what they do as part of it.
    #[must_use]
    pub fn on_behalf_of(&self, call: &CallId) -> Self {
        Self {
            shown_as: Some(call.clone()),
            ..self.clone()
        }
    }

    /// The call as which the client is shown `call`.
    #[must_use]
    pub fn shown_call(&self, call: &CallId) -> CallId {
        self.shown_as.as_ref().unwrap_or(call).clone()
    }

    /// What the turn may use of the client's.
    #[must_use]
    pub fn offers(&self) -> Offers {
        self.offers
    }

    /// The client has come back over another connection. Says whether it is taken: one that does
    /// not offer the same would change where tools run within a turn.
    ///
    /// The caller vouches that it is the same client.
    #[must_use]
    pub fn take_back(&self, client: Arc<dyn ClientSide>) -> bool {
        let is_same = client.offers() == self.offers;
        if is_same {
            self.taken_by.send_replace(client);
        }
        is_same
    }

    /// The client, if it is there now.
    #[must_use]
    pub fn present(&self) -> Option<Arc<dyn ClientSide>> {
        let client = Arc::clone(&self.taken_by.borrow());
        (!client.is_gone()).then_some(client)
    }

    /// The client, waiting for it to come back if it has left.
    ///
    /// # Errors
    /// [`ClientError::Gone`] if it does not come back in time.
    pub async fn client(&self) -> Result<Arc<dyn ClientSide>, ClientError> {
        let mut taken_by = self.taken_by.subscribe();
        let there = taken_by.wait_for(|client| !client.is_gone());
        match tokio::time::timeout(self.wait, there).await {
            Ok(Ok(client)) => Ok(Arc::clone(&client)),
            Ok(Err(_)) | Err(_) => Err(ClientError::Gone),
        }
    }
}
