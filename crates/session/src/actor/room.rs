//! Whether the disk has room for what a session is asked to do.

use std::time::Duration;

use tokio::time::Instant;

use super::SessionActor;
use crate::store_task::blocking;

/// How long an answer about the disk's free space is believed.
const DISK_LOOK: Duration = Duration::from_secs(1);

impl SessionActor {
    /// Whether the disk has room for a turn. Asked now and then: a disk does not fill at once.
    pub(super) async fn has_disk_room(&mut self) -> bool {
        let now = Instant::now();
        if self.disk_room.is_none_or(|(_, at)| now >= at + DISK_LOOK) {
            let store = self.engine.store.clone();
            let free = blocking(move || store.free_bytes()).await;
            // A disk that cannot be asked is left to say no by itself.
            let is_full = free.is_ok_and(|free| free < self.engine.limits.disk_free_min);
            self.disk_room = Some((!is_full, now));
        }
        self.disk_room.is_none_or(|(has_room, _)| has_room)
    }
}
