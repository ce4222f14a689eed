//! A connection within this process: bounded channels of frames.

use std::sync::Arc;

use auth::{Principal, Unauthorized};
use domain::ConnectionId;
use tokio::sync::mpsc;

use crate::connection::lanes::Lanes;
use crate::connection::outbox::{Close, Next, Outbox};
use crate::connection::{self, INBOUND_FRAMES_MAX, Inbound, Opening, Reach};
use crate::service::Service;

/// Frames that may wait in each direction; the rest waits in the outbox or with the sender.
const PIPE_FRAMES_MAX: usize = 256;

/// The two ends that a client within the process holds: frames to send, and frames to read.
pub type Ends = (mpsc::Sender<String>, mpsc::Receiver<String>);

/// Connects to `service` from within the process.
///
/// # Errors
/// If the service does not admit this process.
pub fn connect(service: &Arc<Service>) -> Result<Ends, Unauthorized> {
    let principal = service.admit(&auth::Credential::ThisProcess)?;
    Ok(open(service, principal, Reach::Local, PIPE_FRAMES_MAX))
}

/// Connects as somebody who came over a network: with its deadlines and its pace, and with at most
/// `frames_max` frames on the way to it.
#[must_use]
pub fn connect_as(service: &Arc<Service>, principal: Principal, frames_max: usize) -> Ends {
    open(service, principal, Reach::Network, frames_max)
}

fn open(service: &Arc<Service>, principal: Principal, reach: Reach, frames_max: usize) -> Ends {
    let (to_agent, from_client) = mpsc::channel(PIPE_FRAMES_MAX);
    let (to_client, from_agent) = mpsc::channel(frames_max);
    serve(service, principal, reach, (from_client, to_client));
    (to_agent, from_agent)
}

fn serve(
    service: &Arc<Service>,
    principal: Principal,
    reach: Reach,
    (mut from_client, to_client): (mpsc::Receiver<String>, mpsc::Sender<String>),
) {
    let outbox = Outbox::new(service.limits.outbox_bytes_max);
    let (frames, inbound) = mpsc::channel(INBOUND_FRAMES_MAX);
    let id = ConnectionId::random();
    let opening = Opening {
        id,
        principal,
        source: inbound,
        lanes: Lanes::One(outbox.clone()),
        reach,
        trace: None,
    };
    service
        .connections
        .spawn(connection::serve(Arc::clone(service), opening));
    service.connections.spawn(async move {
        while let Some(frame) = from_client.recv().await {
            if frames
                .send(Inbound::Frame(frame.into_bytes().into()))
                .await
                .is_err()
            {
                return;
            }
        }
    });
    service.connections.spawn(async move {
        while let Next::Frames(frames) = outbox.next().await {
            for frame in frames {
                if to_client.send(frame).await.is_err() {
                    return outbox.close(Close::Gone);
                }
            }
        }
    });
}
