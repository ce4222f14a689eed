//! Names of a session's files, for somebody who types one.

use std::sync::Arc;

use auth::Principal;
use axum::Extension;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use domain::limits::{FILE_NAMES, FILE_NAMES_MAX, FILE_QUERY_BYTES_MAX};
use session::{From, file_names};

use super::reading::{Named, about, done, enter, query};
use super::sessions::check_owner;
use super::shapes::{FileName, FileNames, FileQuery};
use crate::http::answer::typed_response;
use crate::http::body::misshapen;
use crate::service::Service;

/// Offers files beneath the session's directories, the best answers first.
#[utoipa::path(get, path = "/api/v1/sessions/{id}/files", tag = "sessions",
    params(("id" = String, Path), FileQuery), responses((status = 200, body = FileNames)))]
pub(super) async fn files(
    State(service): State<Arc<Service>>,
    Extension(principal): Extension<Principal>,
    named: Named,
    uri: Uri,
) -> Result<Response, Response> {
    let asked: FileQuery = query(&uri)?;
    let limit = asked.limit.unwrap_or(FILE_NAMES as u64);
    if !(1..=FILE_NAMES_MAX as u64).contains(&limit) {
        let message = format!("limit must be between 1 and {FILE_NAMES_MAX}");
        return Err(misshapen(&message));
    }
    let typed = asked.query.unwrap_or_default();
    if typed.len() > FILE_QUERY_BYTES_MAX {
        let message = format!("query has at most {FILE_QUERY_BYTES_MAX} bytes");
        return Err(misshapen(&message));
    }
    let id = named.id()?;
    check_owner(&service, &principal, id).await?;
    let attached = enter(&service, &principal, (id, From::Head)).await?;
    let roots = done(|reply| attached.handle.roots(reply)).await?;
    let limit = usize::try_from(limit).unwrap_or(FILE_NAMES_MAX);
    let found = file_names::offer(roots, typed, limit).await;
    let files = found.into_iter().map(|path| FileName { path }).collect();
    Ok(about(
        id,
        typed_response(StatusCode::OK, &FileNames { files }),
    ))
}
