//! What a change would do to a file of the client's, asked of the client: it may hold another text
//! than the server's disk does.

use std::pin::Pin;
use std::sync::Arc;

use domain::limits::CLIENT_PREVIEW_TIME;
use serde_json::Value;

use crate::client_side::{ClientSeat, ReadTextFile};
use crate::roots::Roots;

/// What would change, once it is known: a block for each hunk.
pub type Preview = Pin<Box<dyn Future<Output = Vec<Value>> + Send>>;

/// What a client said of a file.
#[derive(Debug)]
pub(super) enum Glance {
    /// It has this text.
    Text(String),
    /// Nothing, or nothing soon: it may not be there.
    Unsaid,
    /// It does not offer to.
    NotOffered,
}

/// Asks the client for the text of a file. Nobody waits long for what is only shown.
pub(super) async fn glance(path: &str, roots: &Arc<Roots>, seat: &ClientSeat) -> Glance {
    if !seat.offers().read_text_file {
        return Glance::NotOffered;
    }
    let text = text(path, roots, seat).await;
    text.map_or(Glance::Unsaid, Glance::Text)
}

async fn text(path: &str, roots: &Arc<Roots>, seat: &ClientSeat) -> Option<String> {
    let client = seat.present()?;
    let (roots, path) = (Arc::clone(roots), path.to_owned());
    // Looking at the disk blocks.
    let checked = tokio::task::spawn_blocking(move || roots.on_client(&path));
    let path = checked.await.ok()?.ok()?;
    let asked = client.read_text_file(ReadTextFile {
        path,
        line: None,
        limit: None,
    });
    tokio::time::timeout(CLIENT_PREVIEW_TIME, asked)
        .await
        .ok()?
        .ok()
}
