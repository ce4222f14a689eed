//! Noticing that nobody uses the server any more, for one that was started by the way.

use std::time::Duration;

use meters::label::{Phase, Transport};
use tokio::time::{Instant, sleep};

/// Looks in the time after which it ends: often enough that it is not much late.
const LOOKS: u32 = 8;
/// Longest time between two looks; a look reads a few numbers.
const LOOK_EVERY_MAX: Duration = Duration::from_secs(5);

/// Returns when no client has been there and no turn has run for `idle_max`; never without one.
pub(super) async fn for_long(idle_max: Option<Duration>) {
    let Some(idle_max) = idle_max else {
        return std::future::pending().await;
    };
    let look_every = (idle_max / LOOKS).clamp(Duration::from_millis(1), LOOK_EVERY_MAX);
    let mut used_at = Instant::now();
    let mut ever = clients_ever();
    while used_at.elapsed() < idle_max {
        sleep(look_every).await;
        // Somebody may have come and gone between two looks.
        let now = clients_ever();
        if now != ever || is_used() {
            used_at = Instant::now();
        }
        ever = now;
    }
}

const TRANSPORTS: [Transport; 3] = [Transport::WebSocket, Transport::Http, Transport::Stdio];

fn clients_ever() -> u64 {
    let counts = TRANSPORTS.map(|transport| meters::CONNECTIONS_EVER.of(transport).value());
    counts.iter().sum()
}

/// Whether a client is connected, or a turn runs or waits for a person.
fn is_used() -> bool {
    let clients = TRANSPORTS.map(|transport| meters::CONNECTIONS.of(transport).value());
    let turns = [Phase::Running, Phase::Waiting].map(|phase| meters::SESSIONS.of(phase).value());
    clients.iter().chain(&turns).any(|count| *count > 0)
}
