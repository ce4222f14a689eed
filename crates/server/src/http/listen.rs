//! Listening sockets: accepting, telling protocols apart, and the end of it all.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::carry::carry;
use super::farewell::{self, farewell};
use super::pulse::Beating;
use super::routes::router;
use super::sniff::sniff;
use super::socket::{Peer, Socket};
use super::tls::Tls;
use super::unix::UnixDoor;
use crate::service::Service;

/// How long accepting rests when the system has no room for another connection; each time twice
/// as long, because the connection that waits would wake us again at once.
const REST_MIN: Duration = Duration::from_millis(50);

/// Longest rest: a client that knocks when there is room again is let in after this.
const REST_MAX: Duration = Duration::from_secs(1);

/// Connections that wait to be accepted: thousands may come back at once after a restart, and one
/// that finds the queue full tries again only a second later. The system may allow fewer.
pub(super) const BACKLOG: u32 = 4_096;

/// How long nothing is logged about a shortage after something was.
const QUIET: Duration = Duration::from_secs(10);

/// What a server listens on.
pub struct Listening {
    /// The network.
    pub tcp: TcpListener,
    /// With a certificate, the network is spoken to in TLS only.
    pub tls: Option<Tls>,
    /// A socket for the same user on this machine.
    pub unix: Option<UnixDoor>,
    /// Sockets open at once; the others wait in the system's queue. It must leave descriptors for
    /// the files of sessions.
    pub sockets_max: usize,
}

/// Listens on the network.
///
/// # Errors
/// If the address cannot be had.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // Connections of an earlier run that are still being forgotten do not hold the port.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Accepts connections until `stop`.
pub async fn serve(service: Arc<Service>, listening: Listening, stop: CancellationToken) {
    let edge = Edge {
        router: router(Arc::clone(&service)),
        service,
        room: Arc::new(Semaphore::new(
            listening.sockets_max.clamp(1, Semaphore::MAX_PERMITS),
        )),
        stop,
        complained: Mutex::default(),
    };
    let network = Listener::Network(listening.tcp, listening.tls);
    match listening.unix {
        None => edge.accept(&network).await,
        Some(unix) => {
            let beside = Listener::Unix(unix);
            tokio::join!(edge.accept(&network), edge.accept(&beside));
        }
    }
}

/// One of the sockets that are listened on.
enum Listener {
    Network(TcpListener, Option<Tls>),
    Unix(UnixDoor),
}

impl Listener {
    /// The next connection.
    async fn accept(&self) -> io::Result<(Knock, Peer)> {
        match self {
            Self::Network(listener, tls) => {
                let (socket, address) = listener.accept().await?;
                // Answers are small and must not wait for the peer's delayed acknowledgement. It
                // fails only if the peer has left, which will be seen.
                let _ = socket.set_nodelay(true);
                Ok((Knock::Tcp(socket, tls.clone()), Peer::Network(address)))
            }
            Self::Unix(door) => {
                let (socket, _) = door.listener().accept().await?;
                let peer = Peer::Unix(socket.peer_cred()?.uid());
                Ok((Knock::Unix(socket), peer))
            }
        }
    }
}

/// A connection before anything was read from it.
enum Knock {
    Tcp(TcpStream, Option<Tls>),
    Unix(UnixStream),
}

/// What all accepted connections share.
struct Edge {
    service: Arc<Service>,
    router: Router,
    room: Arc<Semaphore>,
    stop: CancellationToken,
    complained: Mutex<Option<Instant>>,
}

impl Edge {
    /// Accepts from one listener until the edge stops.
    async fn accept(&self, listener: &Listener) {
        let mut rest = REST_MIN;
        loop {
            let accepting = async {
                let permit = self.permit().await;
                (listener.accept().await, permit)
            };
            let accepted = tokio::select! {
                () = self.stop.cancelled() => return,
                accepted = accepting => accepted,
            };
            match accepted {
                (Ok((knock, peer)), Some(permit)) => {
                    rest = REST_MIN;
                    self.spawn(knock, peer, permit);
                }
                // The peer gave up while it waited; the next one need not.
                (Err(error), _) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                (Err(error), _) => {
                    if self.may_complain() {
                        tracing::warn!(%error, "a connection could not be accepted");
                    }
                    tokio::select! {
                        () = self.stop.cancelled() => return,
                        () = tokio::time::sleep(rest) => {}
                    }
                    rest = (rest * 2).min(REST_MAX);
                }
                // Nobody closes the semaphore.
                (Ok(_), None) => return,
            }
        }
    }

    /// The permit to have one more socket open.
    async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(permit) = Arc::clone(&self.room).try_acquire_owned() {
            return Some(permit);
        }
        if self.may_complain() {
            tracing::warn!("as many connections are open as may be; new ones wait");
        }
        Arc::clone(&self.room).acquire_owned().await.ok()
    }

    /// Whether it was quiet for a while: under attack the log must not grow with the attack.
    fn may_complain(&self) -> bool {
        let mut last = self
            .complained
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let is_time = last.is_none_or(|last| now - last > QUIET);
        if is_time {
            *last = Some(now);
        }
        is_time
    }

    fn spawn(&self, knock: Knock, peer: Peer, permit: OwnedSemaphorePermit) {
        let (service, router) = (Arc::clone(&self.service), self.router.clone());
        let closing = self.service.closing.clone();
        self.service.connections.spawn(async move {
            let deadline = Instant::now() + service.limits.handshake;
            let opening = tokio::time::timeout_at(deadline, open(knock, peer));
            let opened = tokio::select! {
                opened = opening => opened,
                () = closing.cancelled() => return,
            };
            match opened {
                Ok(Ok(Some((socket, protocol, sniffed)))) => {
                    let socket = Beating {
                        socket,
                        sniffed,
                        pulse: Arc::default(),
                        refused: None,
                        _permit: permit,
                    };
                    carry(service, router, (socket, protocol, peer)).await;
                }
                Ok(Ok(None)) => {}
                Ok(Err(error)) => tracing::debug!(?peer, %error, "no connection"),
                Err(_) => tracing::debug!(?peer, "nothing was asked in time"),
            }
        });
    }
}

type Opened = (
    Socket,
    super::sniff::Protocol,
    Option<super::sniff::Sniffed>,
);

/// Gets a connection to where it speaks HTTP, and says which; `None` if it ends here.
async fn open(knock: Knock, peer: Peer) -> io::Result<Option<Opened>> {
    if let Peer::Unix(uid) = peer
        && uid != auth::own_uid()
    {
        turn_away(knock, uid).await;
        return Ok(None);
    }
    let mut socket = match knock {
        Knock::Tcp(socket, Some(tls)) => {
            let (socket, protocol) = tls.accept(socket).await?;
            return Ok(Some((Socket::Tls(Box::new(socket)), protocol, None)));
        }
        Knock::Tcp(socket, None) => Socket::Tcp(socket),
        Knock::Unix(socket) => Socket::Unix(socket),
    };
    let sniffed = sniff(&mut socket).await?;
    Ok(sniffed.map(|(protocol, sniffed)| (socket, protocol, Some(sniffed))))
}

/// Tells a user who may not come in.
async fn turn_away(knock: Knock, uid: u32) {
    tracing::warn!(uid, "another user was turned away");
    if let Knock::Unix(socket) = knock {
        let message = "this socket serves its owner only";
        let answer = farewell::plain(StatusCode::FORBIDDEN, "forbidden_peer", message);
        farewell(Socket::Unix(socket), answer.as_bytes()).await;
    }
}
