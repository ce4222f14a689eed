//! A road to a server on which every connection can be cut at any moment, and new ones made.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;

/// Carries connections to one server until they are cut.
pub struct Ferry {
    address: SocketAddr,
    cuts: watch::Sender<u64>,
    taken: Arc<AtomicUsize>,
}

impl Ferry {
    /// Opens a road to the server at the Unix socket `target`: there it may be called by any name.
    ///
    /// # Panics
    /// If it cannot listen.
    pub async fn to(target: PathBuf) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.unwrap_or_else(|error| panic!("cannot listen: {error}"));
        let address = listener.local_addr();
        let address = address.unwrap_or_else(|error| panic!("no address: {error}"));
        let (cuts, cut) = watch::channel(0);
        let taken = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&taken);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                let mut cut = cut.clone();
                cut.mark_unchanged();
                let target = target.clone();
                tokio::spawn(async move {
                    let Ok(server) = UnixStream::connect(target).await else {
                        return;
                    };
                    tokio::select! {
                        () = carry(client, server) => {}
                        // Dropping both ends is the cut; it also ends with the ferry.
                        _ = cut.changed() => {}
                    }
                });
            }
        });
        Self {
            address,
            cuts,
            taken,
        }
    }

    /// The server's address by this road.
    #[must_use]
    pub fn url(&self) -> String {
        format!("ws://{}/acp", self.address)
    }

    /// Cuts every connection there is.
    pub fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// How many connections were made so far.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::SeqCst)
    }
}

async fn carry(mut client: TcpStream, mut server: UnixStream) {
    // However it ends, both ends are dropped.
    let _ = copy_bidirectional(&mut client, &mut server).await;
}
