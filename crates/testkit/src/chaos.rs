//! A road to a server that breaks: a proxy that resets both ends after a given byte.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// Which bytes are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    Up,
    /// From the server to the client.
    Down,
}

/// Where the road breaks.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    /// Whose bytes are counted.
    pub direction: Direction,
    /// How many of them still arrive.
    pub after: usize,
}

/// A road for one connection.
pub struct Road {
    address: SocketAddr,
    passed: Arc<Passed>,
}

#[derive(Default)]
struct Passed {
    up: AtomicUsize,
    down: AtomicUsize,
}

impl Road {
    /// Opens a road to `target` (`ADDRESS:PORT`) that breaks at `cut`.
    ///
    /// # Panics
    /// If it cannot listen.
    pub async fn open(target: &str, cut: Option<Cut>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.unwrap_or_else(|error| panic!("cannot listen: {error}"));
        let address = listener.local_addr();
        let address = address.unwrap_or_else(|error| panic!("no address: {error}"));
        let passed = Arc::new(Passed::default());
        let (counted, target) = (Arc::clone(&passed), target.to_owned());
        tokio::spawn(async move {
            let Ok((client, _)) = listener.accept().await else {
                return;
            };
            if let Ok(server) = TcpStream::connect(target).await {
                carry(client, server, cut, &counted).await;
            }
        });
        Self { address, passed }
    }

    /// A connection over this road.
    ///
    /// # Panics
    /// If there is none.
    pub async fn travel(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).await;
        stream.unwrap_or_else(|error| panic!("no connection: {error}"))
    }

    /// How many bytes have passed in one direction.
    #[must_use]
    pub fn passed(&self, direction: Direction) -> usize {
        match direction {
            Direction::Up => self.passed.up.load(Ordering::Relaxed),
            Direction::Down => self.passed.down.load(Ordering::Relaxed),
        }
    }
}

/// Carries bytes both ways until one end leaves or the road breaks, then resets both ends.
async fn carry(client: TcpStream, server: TcpStream, cut: Option<Cut>, passed: &Passed) {
    for stream in [&client, &server] {
        // A socket whose options cannot be set is gone already, which comes to the same.
        let _ = stream.set_nodelay(true);
        let _ = stream.set_zero_linger();
    }
    let left = |direction| match cut {
        Some(cut) if cut.direction == direction => cut.after,
        _ => usize::MAX,
    };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let broken = Notify::new();
    let up = one_way(from_client, to_server, left(Direction::Up), &passed.up);
    let down = one_way(from_server, to_client, left(Direction::Down), &passed.down);
    tokio::select! {
        () = up => broken.notify_one(),
        () = down => broken.notify_one(),
    }
}

async fn one_way(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut left: usize,
    passed: &AtomicUsize,
) {
    let mut bytes = vec![0; 16 * 1024];
    while left > 0 {
        let room = left.min(bytes.len());
        let Ok(count @ 1..) = from.read(&mut bytes[..room]).await else {
            return;
        };
        if to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
        left -= count;
        passed.fetch_add(count, Ordering::Relaxed);
    }
}
