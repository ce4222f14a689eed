//! `GET /api/v1/openapi.json`: what can be asked for, described from the types.

use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::MethodFilter;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::info::License;
use utoipa::openapi::path::Operation;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{
    Content, OpenApi, PathItem, Ref, RefOr, Response as Answer, ResponseBuilder,
    SecurityRequirement, Server,
};
use utoipa::{OpenApi as _, ToSchema as _};

use super::PREFIX;
use super::operations::{Documented, OPERATIONS, refusals};
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
    let mut license = License::new("Apache License 2.0");
    license.identifier = Some(env!("CARGO_PKG_LICENSE").to_owned());
    described.info.license = Some(license);
    described.servers = Some(vec![Server::new("/")]);
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
    let components = described.components.get_or_insert_default();
    components.add_security_scheme(BEARER, SecurityScheme::Http(bearer));
    let none: [&str; 0] = [];
    described.security = Some(vec![SecurityRequirement::new(BEARER, none)]);
    for (path, item) in &mut described.paths.paths {
        for (method, operation) in operations(item) {
            let named = |known: &&Documented| {
                known.method == method && path.strip_prefix(PREFIX) == Some(known.path)
            };
            if let Some(documented) = OPERATIONS.iter().find(named) {
                document(operation, documented);
            }
            if path.ends_with("/login") {
                operation.security = Some(vec![SecurityRequirement::default()]);
            }
        }
    }
    described
}

/// Adds what the types do not say.
fn document(operation: &mut Operation, documented: &Documented) {
    operation.operation_id = Some(documented.id.to_owned());
    operation.summary = Some(documented.summary.to_owned());
    operation.description = Some(documented.description.to_owned());
    let answers = &mut operation.responses.responses;
    for answer in answers.values_mut() {
        if let RefOr::T(answer) = answer
            && answer.description.is_empty()
        {
            documented.answer.clone_into(&mut answer.description);
        }
    }
    for (status, meaning) in refusals(documented.refusals) {
        let refused = RefOr::T(refused(status, meaning));
        answers.insert(status.to_owned(), refused);
    }
    for parameter in operation.parameters.iter_mut().flatten() {
        if let RefOr::T(parameter) = parameter
            && parameter.description.is_none()
        {
            let what = match (parameter.name.as_str(), documented.path) {
                ("id", "/permissions/{id}") => "The id of the permission request.",
                ("id", _) => "The id of the session.",
                ("shareId", _) => "The id of the share.",
                _ => continue,
            };
            parameter.description = Some(what.to_owned());
        }
    }
    if let (Some(RefOr::T(body)), Some(example)) =
        (&mut operation.request_body, (documented.example)())
    {
        for content in body.content.values_mut() {
            if let RefOr::T(content) = content {
                content.example = Some(example.clone());
            }
        }
    }
}

/// One way to be refused.
fn refused(status: &str, meaning: &str) -> Answer {
    let shape = Ref::from_schema_name(Refusal::name());
    let content = Content::new(Some(RefOr::Ref(shape)));
    let mut refused = ResponseBuilder::new()
        .description(meaning)
        .content("application/json", content);
    if status == "429" {
        let seconds = ObjectBuilder::new().schema_type(Type::Integer).build();
        let header = HeaderBuilder::new()
            .schema(Some(seconds))
            .description(Some("Seconds to wait before the next request."));
        refused = refused.header("Retry-After", header.build());
    }
    refused.build()
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

    use utoipa::openapi::RefOr;

    use super::{description, operations};
    use crate::rest::operations::OPERATIONS;
    use crate::rest::{PREFIX, ROUTES};

    /// What generated clients and linters rely on; the peers' linter checks the same and more.
    #[test]
    fn every_operation_is_named_once_and_fully_described() {
        let mut described = description();
        let mut names = BTreeSet::new();
        assert!(described.servers.is_some() && described.info.license.is_some());
        for (path, item) in &mut described.paths.paths {
            for (_, operation) in operations(item) {
                let name = operation.operation_id.clone().unwrap();
                assert!(names.insert(name.clone()), "{name} stands twice");
                assert!(operation.tags.as_ref().is_some_and(|tags| !tags.is_empty()));
                let answers = &operation.responses.responses;
                for (status, answer) in answers {
                    let RefOr::T(answer) = answer else { continue };
                    assert!(!answer.description.is_empty(), "{path} {status}");
                }
                for status in ["400", "401", "403", "429", "500", "503"] {
                    assert!(answers.contains_key(status), "{path} lacks {status}");
                }
                let is_missable = path.contains('{');
                assert_eq!(answers.contains_key("404"), is_missable, "{path}");
                for parameter in operation.parameters.iter().flatten() {
                    let RefOr::T(parameter) = parameter else {
                        continue;
                    };
                    let name = &parameter.name;
                    assert!(parameter.description.is_some(), "{path} {name}");
                }
                if let Some(RefOr::T(body)) = &operation.request_body {
                    let mut contents = body.content.values();
                    assert!(
                        contents.all(|content| matches!(content, RefOr::T(content)
                            if content.example.is_some())),
                        "{path} has no example"
                    );
                    assert!(answers.contains_key("413") && answers.contains_key("415"));
                }
            }
        }
        assert_eq!(names.len(), OPERATIONS.len());
    }

    #[test]
    fn every_route_is_described_and_nothing_else() {
        let mut described = description();
        let mut named = BTreeSet::new();
        for (path, item) in &mut described.paths.paths {
            for (method, operation) in operations(item) {
                assert!(operation.description.is_some() && operation.summary.is_some());
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
