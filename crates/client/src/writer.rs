//! The task that writes: frames in the order they were queued, and pings between them.

use std::time::Duration;

use domain::limits::CLOSE_WAIT;
use futures_util::SinkExt;
use tokio::sync::mpsc;
use tokio::time::{self, Instant, Interval, MissedTickBehavior};

use crate::error::TransportError;
use crate::transport::{FrameOut, FramesOut};

/// Writes until the queue is closed and empty, or writing fails. Returns why it ended.
pub(crate) async fn write(
    mut frames_out: FramesOut,
    mut queue: mpsc::Receiver<String>,
    ping: Option<Duration>,
    stall: Duration,
) -> TransportError {
    let mut ticks = ping.map(ticking);
    loop {
        let frame = tokio::select! {
            frame = queue.recv() => match frame {
                Some(frame) => FrameOut::Text(frame),
                None => break,
            },
            () = tick(&mut ticks) => FrameOut::Ping,
        };
        match time::timeout(stall, frames_out.send(frame)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return error,
            Err(_) => {
                return TransportError::Stalled {
                    seconds: stall.as_secs_f64(),
                };
            }
        }
    }
    // A goodbye is good manners; a peer that does not take it loses nothing by it.
    let _ = time::timeout(CLOSE_WAIT, frames_out.close()).await;
    TransportError::ClosedHere
}

fn ticking(every: Duration) -> Interval {
    let every = every.max(Duration::from_millis(1));
    let mut ticks = time::interval_at(Instant::now() + every, every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

async fn tick(ticks: &mut Option<Interval>) {
    match ticks {
        Some(ticks) => {
            ticks.tick().await;
        }
        None => std::future::pending().await,
    }
}
