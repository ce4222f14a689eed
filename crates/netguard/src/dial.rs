//! Opening a connection to a judged address.

use std::io;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::BoxFuture;
use crate::judge::JudgedAddr;

/// A connection, over whatever it runs.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Opens connections. What it is asked to dial was judged; it must not look anything up.
pub trait Dialer: Send + Sync + 'static {
    /// Connects. Dropping the future gives up and closes.
    fn dial(&self, address: JudgedAddr) -> BoxFuture<'_, io::Result<Box<dyn Stream>>>;
}

/// Plain TCP.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpDialer;

impl Dialer for TcpDialer {
    fn dial(&self, address: JudgedAddr) -> BoxFuture<'_, io::Result<Box<dyn Stream>>> {
        Box::pin(async move {
            let stream = TcpStream::connect(address.socket_addr()).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as Box<dyn Stream>)
        })
    }
}
