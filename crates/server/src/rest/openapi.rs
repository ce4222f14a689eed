//! `GET /api/v1/openapi.json`: what can be asked for, described from the types.

use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::MethodFilter;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{
    Content, OpenApi, PathItem, Ref, RefOr, ResponseBuilder, SecurityRequirement,
};
use utoipa::{OpenApi as _, ToSchema as _};

use super::shapes::Refusal;
use super::{
    about, changes, events, files, permissions, prompts, server_view, sessions, shares, stream,
};
use crate::http::answer::typed_response;
use crate::http::login;

/// The name under which the token is described.
const BEARER: &str = "bearer";

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Fastness",
        description = "Sessions of an agent, for scripts and pages. Live clients use ACP at `/acp`."
    ),
    paths(
        sessions::create,
        sessions::list,
        changes::changes,
        sessions::one,
        sessions::change,
        sessions::delete,
        sessions::fork,
        events::events,
        stream::stream,
        prompts::prompt,
        prompts::cancel,
        files::files,
        shares::share,
        shares::list,
        shares::end,
        permissions::list,
        permissions::answer,
        about::usage,
        server_view::server,
        about::info,
        openapi,
        login::login,
    ),
    components(schemas(Refusal))
)]
struct Described;

/// Describes all of this.
#[utoipa::path(get, path = "/api/v1/openapi.json", tag = "server",
    responses((status = 200, body = Object)))]
pub(super) async fn openapi() -> Response {
    typed_response(StatusCode::OK, &description())
}

/// The description, with what holds for every request: a token is needed, but to log in, and
/// refusals look alike.
fn description() -> OpenApi {
    let mut described = Described::openapi();
    env!("CARGO_PKG_VERSION").clone_into(&mut described.info.version);
    described.info.license = None;
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
    let components = described.components.get_or_insert_default();
    components.add_security_scheme(BEARER, SecurityScheme::Http(bearer));
    let none: [&str; 0] = [];
    described.security = Some(vec![SecurityRequirement::new(BEARER, none)]);
    for (path, item) in &mut described.paths.paths {
        for (_, operation) in operations(item) {
            refuse(operation);
            if path.ends_with("/login") {
                operation.security = Some(vec![SecurityRequirement::default()]);
            }
        }
    }
    described
}

fn refuse(operation: &mut Operation) {
    let shape = Ref::from_schema_name(Refusal::name());
    let content = Content::new(Some(RefOr::Ref(shape)));
    let refused = ResponseBuilder::new()
        .description("refused")
        .content("application/json", content)
        .build();
    let answers = &mut operation.responses.responses;
    answers.insert("default".to_owned(), RefOr::T(refused));
}

/// What a path takes.
fn operations(item: &mut PathItem) -> impl Iterator<Item = (MethodFilter, &mut Operation)> {
    let known = [
        (MethodFilter::GET, &mut item.get),
        (MethodFilter::POST, &mut item.post),
        (MethodFilter::PATCH, &mut item.patch),
        (MethodFilter::DELETE, &mut item.delete),
    ];
    let known = known.into_iter();
    known.filter_map(|(method, operation)| Some((method, operation.as_mut()?)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use axum::routing::MethodFilter;

    use super::{description, operations};
    use crate::rest::{PREFIX, ROUTES};

    #[test]
    fn every_route_is_described_and_nothing_else() {
        let mut described = description();
        let mut named = BTreeSet::new();
        for (path, item) in &mut described.paths.paths {
            for (method, operation) in operations(item) {
                assert!(operation.description.is_some() || operation.summary.is_some());
                named.insert((format!("{method:?}"), path.clone()));
            }
        }
        let served = ROUTES.iter().map(|route| {
            let path = format!("{PREFIX}{}", route.path);
            (format!("{:?}", route.method), path)
        });
        let mut served: BTreeSet<_> = served.collect();
        // Before the others, because it needs no token.
        let login = (
            format!("{:?}", MethodFilter::POST),
            "/api/v1/login".to_owned(),
        );
        served.insert(login);
        assert_eq!(named, served);
    }
}
