//! Listening sockets: accepting, deadlines for headers, and the end of it all.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::routes::router;
use crate::service::Service;

/// How long accepting rests when the system has no more descriptors for us.
const ACCEPT_REST: Duration = Duration::from_millis(50);

/// Accepts connections until `stop`.
pub async fn serve(service: Arc<Service>, listener: TcpListener, stop: CancellationToken) {
    let router = router(Arc::clone(&service));
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((socket, peer)) => accept(&service, router.clone(), socket, peer),
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_REST).await;
            }
        }
    }
}

fn accept(service: &Arc<Service>, router: Router, socket: TcpStream, peer: SocketAddr) {
    // Answers are small and must not wait for the peer's delayed acknowledgement.
    if let Err(error) = socket.set_nodelay(true) {
        tracing::debug!(%peer, %error, "the peer left at once");
        return;
    }
    let headers_time = service.limits.handshake;
    let closing = service.closing.clone();
    service.connections.spawn(async move {
        let mut http = hyper::server::conn::http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(headers_time);
        let serving = http
            .serve_connection(TokioIo::new(socket), TowerToHyperService::new(router))
            .with_upgrades();
        tokio::select! {
            served = serving => if let Err(error) = served {
                tracing::debug!(%peer, %error, "the connection ended early");
            },
            () = closing.cancelled() => {}
        }
    });
}
