//! ACP on stdin and stdout: one JSON object per line, and nothing else on stdout.

mod lines;

use std::io;
use std::sync::Arc;

use auth::Unauthorized;
use domain::ConnectionId;
use tokio::sync::mpsc;

use crate::connection::lanes::Lanes;
use crate::connection::outbox::{Close, Next, Outbox};
use crate::connection::{self, INBOUND_FRAMES_MAX, Inbound, Opening, Reach};
use crate::service::{FLUSH_TIME_MAX, Service};

pub use lines::{LineReader, LineWriter};

/// Bytes a line buffer may keep between lines.
const LINE_CAPACITY_KEPT: usize = 64 * 1024;

/// Serves one client on `input` and `output` until the input ends, the output breaks, or the
/// service closes.
///
/// # Errors
/// If the service does not admit this process.
pub async fn serve(
    service: &Arc<Service>,
    input: LineReader,
    output: LineWriter,
) -> Result<(), Unauthorized> {
    let principal = service.admit(&auth::Credential::ThisProcess)?;
    let outbox = Outbox::new(service.limits.outbox_bytes_max);
    let (frames, inbound) = mpsc::channel(INBOUND_FRAMES_MAX);
    // It ends with the input, or as soon as nobody takes what it reads.
    tokio::spawn(read_lines(input, frames));
    let mut writing = tokio::spawn(write_lines(outbox.clone(), output));
    let opening = Opening {
        id: ConnectionId::random(),
        principal,
        source: inbound,
        lanes: Lanes::One(outbox.clone()),
        reach: Reach::Local,
        trace: None,
    };
    let serving = service
        .connections
        .spawn(connection::serve(Arc::clone(service), opening));
    tokio::select! {
        _ = serving => outbox.close(Close::After(1000)),
        // Nobody reads what we say any more.
        _ = &mut writing => return Ok(()),
    }
    // What was answered is also written, unless nobody takes it.
    let _ = tokio::time::timeout(FLUSH_TIME_MAX, writing).await;
    Ok(())
}

/// Sends each line on as one frame; a line that is too long is skipped and reported.
async fn read_lines(mut input: LineReader, frames: mpsc::Sender<Inbound>) {
    while let Ok(Some(line)) = input.next().await {
        let inbound = line.map_or(Inbound::TooLong, |line| Inbound::Frame(line.into()));
        if frames.send(inbound).await.is_err() {
            return;
        }
    }
}

async fn write_lines(outbox: Outbox, mut output: LineWriter) {
    let mut buffer = Vec::new();
    while let Next::Frames(frames) = outbox.next().await {
        buffer.clear();
        buffer.shrink_to(LINE_CAPACITY_KEPT);
        for frame in frames {
            buffer.extend_from_slice(frame.as_bytes());
            buffer.push(b'\n');
        }
        let written: io::Result<Vec<u8>> = output.write_all(buffer).await;
        let Ok(written) = written else {
            // Nobody reads any more: the client is gone.
            return outbox.close(Close::Gone);
        };
        buffer = written;
    }
}
