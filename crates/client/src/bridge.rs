//! Lines on one side, a connection on the other: what an editor starts and talks to by stdio.
//!
//! Nothing is kept here: while either side does not take what the other says, the other is not read.

use futures_util::{SinkExt, StreamExt};
use tokio::sync::mpsc;
use wire::rpc::{self, RequestId, RpcError};

use crate::error::TransportError;
use crate::transport::{FrameIn, FrameOut, FramesIn, FramesOut, Transport};

/// One line of the editor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// Without its end.
    Whole(Vec<u8>),
    /// It was longer than allowed and was skipped.
    TooLong,
}

/// Carries until the lines end (`Ok`), nobody takes ours any more (`Ok`), or the connection ends.
///
/// After the last line, what was asked before it is still answered for a moment.
///
/// # Errors
/// Why the connection ended.
pub async fn bridge(
    transport: Transport,
    lines: mpsc::Receiver<Line>,
    out: mpsc::Sender<String>,
) -> Result<(), TransportError> {
    let Transport {
        frames_in,
        frames_out,
        ..
    } = transport;
    let to_server = send(lines, frames_out, out.clone());
    let to_editor = receive(frames_in, out);
    tokio::pin!(to_server, to_editor);
    tokio::select! {
        // The way back ends soon after the way there has.
        () = &mut to_server => to_editor.await,
        ended = &mut to_editor => ended,
    }
}

async fn send(
    mut lines: mpsc::Receiver<Line>,
    mut frames_out: FramesOut,
    out: mpsc::Sender<String>,
) {
    loop {
        let line = tokio::select! {
            line = lines.recv() => line,
            () = out.closed() => None,
        };
        let Some(line) = line else { break };
        match text(line) {
            Ok(text) => {
                if frames_out.send(FrameOut::Text(text)).await.is_err() {
                    break;
                }
            }
            Err(refusal) => {
                let answer = rpc::error_response(&RequestId::null(), &refusal);
                // If nobody reads it, the next turn of the loop notices.
                let _ = out.send(answer).await;
            }
        }
    }
    // Saying goodbye cannot fail in a way that matters.
    let _ = frames_out.close().await;
}

fn text(line: Line) -> Result<String, RpcError> {
    match line {
        Line::Whole(bytes) => String::from_utf8(bytes).map_err(|_| RpcError::parse()),
        Line::TooLong => Err(RpcError::invalid_request("the line is too long")),
    }
}

async fn receive(mut frames_in: FramesIn, out: mpsc::Sender<String>) -> Result<(), TransportError> {
    while let Some(frame) = frames_in.next().await {
        if let FrameIn::Text(text) = frame?
            && out.send(text).await.is_err()
        {
            break;
        }
    }
    Ok(())
}
