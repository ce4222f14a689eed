//! What the description says of each operation beyond its types: a unique name, words for people,
//! an example of its body, and how it can be refused.

use axum::routing::MethodFilter;
use serde_json::{Value, json};

use super::{DELETE, GET, PATCH, POST};

/// One operation in words.
pub(super) struct Documented {
    pub(super) method: MethodFilter,
    pub(super) path: &'static str,
    /// Generated clients name a function after it.
    pub(super) id: &'static str,
    pub(super) summary: &'static str,
    pub(super) description: &'static str,
    /// What a good answer means.
    pub(super) answer: &'static str,
    pub(super) refusals: Refusals,
    pub(super) example: fn() -> Option<Value>,
}

/// How an operation can be refused, besides the ways that all share.
#[derive(Clone, Copy, Default)]
pub(super) struct Refusals {
    /// It reads a JSON body.
    pub(super) body: bool,
    /// It names something that may not exist.
    pub(super) missing: bool,
    /// The session may be busy, or open in another process.
    pub(super) busy: bool,
    /// It writes to the store, which may be full.
    pub(super) stores: bool,
    /// The key may have been used for another request.
    pub(super) key: bool,
}

/// The status codes of refusals, each with what it means.
pub(super) fn refusals(refusals: Refusals) -> Vec<(&'static str, &'static str)> {
    let all = [
        (
            true,
            "400",
            "The request is malformed, or a value is not allowed.",
        ),
        (
            true,
            "401",
            "The token is missing, wrong, expired or revoked.",
        ),
        (
            true,
            "403",
            "The token may not do this, or the host or origin is not allowed.",
        ),
        (
            refusals.missing,
            "404",
            "There is no such thing, or this token may not see it.",
        ),
        (refusals.body, "408", "The body did not arrive in time."),
        (
            refusals.busy,
            "409",
            "A turn is running, or another process has the session open.",
        ),
        (refusals.body, "413", "The body is too large."),
        (
            refusals.body,
            "415",
            "The body is not `application/json`, or it is compressed.",
        ),
        (
            refusals.key,
            "422",
            "This `Idempotency-Key` was used for another prompt in this session.",
        ),
        (
            true,
            "429",
            "Too many requests, or a limit was reached. Wait as long as `Retry-After` says.",
        ),
        (true, "500", "The server or its store failed."),
        (
            true,
            "503",
            "The server is shutting down, has too many clients or too many open files.",
        ),
        (refusals.stores, "507", "The disk is full."),
    ];
    let all = all.into_iter().filter(|(applies, _, _)| *applies);
    all.map(|(_, status, meaning)| (status, meaning)).collect()
}

const NONE: Refusals = Refusals {
    body: false,
    missing: false,
    busy: false,
    stores: false,
    key: false,
};
const LOOKS: Refusals = Refusals {
    missing: true,
    ..NONE
};
const ENTERS: Refusals = Refusals {
    missing: true,
    busy: true,
    ..NONE
};
const CHANGES: Refusals = Refusals {
    body: true,
    stores: true,
    ..ENTERS
};

/// All operations, in the order of the routes.
pub(super) const OPERATIONS: &[Documented] = &[
    Documented {
        method: POST,
        path: "/sessions",
        id: "createSession",
        summary: "Create a session",
        description: "Creates a session of this token. Without `cwd` it works in the server's directory.",
        answer: "The session was created.",
        refusals: Refusals {
            body: true,
            stores: true,
            ..NONE
        },
        example: || Some(json!({"title": "nightly build"})),
    },
    Documented {
        method: GET,
        path: "/sessions",
        id: "listSessions",
        summary: "List sessions",
        description: "Lists the sessions that this token may see, the newest first, page by page.",
        answer: "One page of sessions.",
        refusals: NONE,
        example: || None,
    },
    Documented {
        method: GET,
        path: "/sessions/changes",
        id: "followSessions",
        summary: "Follow the list of sessions",
        description: "Streams the list of sessions as server-sent events: first a page of it, then what changes. The stream counts as one request.",
        answer: "Events named `sessions`; the data of each is such an object.",
        refusals: NONE,
        example: || None,
    },
    Documented {
        method: GET,
        path: "/sessions/{id}",
        id: "getSession",
        summary: "Get a session",
        description: "Shows a session as it is now.",
        answer: "The session.",
        refusals: LOOKS,
        example: || None,
    },
    Documented {
        method: PATCH,
        path: "/sessions/{id}",
        id: "updateSession",
        summary: "Change a session",
        description: "Changes the title of a session, archives it or brings it back. What is left out stays.",
        answer: "The session as it is now.",
        refusals: CHANGES,
        example: || Some(json!({"archived": true})),
    },
    Documented {
        method: DELETE,
        path: "/sessions/{id}",
        id: "deleteSession",
        summary: "Delete a session",
        description: "Deletes a session and its sub-agents for good. A running turn is cancelled first.",
        answer: "The session is deleted.",
        refusals: ENTERS,
        example: || None,
    },
    Documented {
        method: POST,
        path: "/sessions/{id}/fork",
        id: "forkSession",
        summary: "Copy a session",
        description: "Creates a session from the first events of another. Inside a turn, the copy ends with the last finished turn before it.",
        answer: "The copy was created.",
        refusals: CHANGES,
        example: || Some(json!({"at": 12})),
    },
    Documented {
        method: GET,
        path: "/sessions/{id}/events",
        id: "listEvents",
        summary: "Read a session's events",
        description: "Returns events as they are stored, in order, page by page.",
        answer: "Some of the session's events.",
        refusals: LOOKS,
        example: || None,
    },
    Documented {
        method: GET,
        path: "/sessions/{id}/stream",
        id: "followSession",
        summary: "Follow a session",
        description: "Streams a session as server-sent events: what is stored after a place, then what happens. The stream counts as one request.",
        answer: "Server-sent events.",
        refusals: ENTERS,
        example: || None,
    },
    Documented {
        method: POST,
        path: "/sessions/{id}/prompts",
        id: "promptSession",
        summary: "Prompt a session",
        description: "Stores a prompt and starts its turn, or queues it. With `Prefer: wait=SECS` the answer waits for the end of the turn. With an `Idempotency-Key` the same request can be sent again: it starts nothing and is answered as before, also after a restart of the server.",
        answer: "The prompt is stored.",
        refusals: Refusals {
            key: true,
            ..CHANGES
        },
        example: || Some(json!({"prompt": "Say hello."})),
    },
    Documented {
        method: POST,
        path: "/sessions/{id}/cancel",
        id: "cancelTurn",
        summary: "Cancel the running turn",
        description: "Cancels the turn that runs and the prompts that wait behind it. If none runs, nothing happens.",
        answer: "The turn is being cancelled.",
        refusals: ENTERS,
        example: || None,
    },
    Documented {
        method: POST,
        path: "/sessions/{id}/share",
        id: "shareSession",
        summary: "Share a session",
        description: "Creates a token with which others can watch this session until it expires or is taken back.",
        answer: "The share was created. Its token is not shown again.",
        refusals: Refusals {
            body: true,
            ..LOOKS
        },
        example: || Some(json!({"expiresInSecs": 3_600})),
    },
    Documented {
        method: GET,
        path: "/sessions/{id}/shares",
        id: "listShares",
        summary: "List the shares of a session",
        description: "Lists the tokens with which others can watch this session, without their secrets.",
        answer: "The shares.",
        refusals: LOOKS,
        example: || None,
    },
    Documented {
        method: DELETE,
        path: "/sessions/{id}/shares/{shareId}",
        id: "deleteShare",
        summary: "Take back a share",
        description: "Revokes a share. Clients that are connected with it are disconnected within a second.",
        answer: "The share is revoked.",
        refusals: LOOKS,
        example: || None,
    },
    Documented {
        method: GET,
        path: "/sessions/{id}/files",
        id: "findFiles",
        summary: "Find files by name",
        description: "Offers files beneath the session's directories for what was typed of a name, the best matches first.",
        answer: "The files.",
        refusals: ENTERS,
        example: || None,
    },
    Documented {
        method: GET,
        path: "/permissions",
        id: "listPermissionRequests",
        summary: "List open permission requests",
        description: "Lists the permission requests and questions of the agent that wait for an answer in the sessions of this token.",
        answer: "What waits for an answer.",
        refusals: NONE,
        example: || None,
    },
    Documented {
        method: POST,
        path: "/permissions/{id}",
        id: "answerPermissionRequest",
        summary: "Answer a permission request",
        description: "Answers a permission request with one of its options, or a question of the agent also with text. The first answer counts.",
        answer: "The answer is stored.",
        refusals: CHANGES,
        example: || Some(json!({"optionId": "allow_once"})),
    },
    Documented {
        method: GET,
        path: "/usage",
        id: "getUsage",
        summary: "Get what was used",
        description: "Adds up the turns, tokens and cost of the sessions that this token may see.",
        answer: "The totals.",
        refusals: NONE,
        example: || None,
    },
    Documented {
        method: GET,
        path: "/server",
        id: "getServer",
        summary: "Get the state of the server",
        description: "Shows memory, connections and counters of the server. Only the server's own token may see it.",
        answer: "How the server is doing.",
        refusals: NONE,
        example: || None,
    },
    Documented {
        method: GET,
        path: "/info",
        id: "getInfo",
        summary: "Get version, models and limits",
        description: "Shows the version of the server, the models that sessions can choose and the limits that clients meet.",
        answer: "What the server offers.",
        refusals: NONE,
        example: || None,
    },
    Documented {
        method: GET,
        path: "/openapi.json",
        id: "getOpenApi",
        summary: "Get this description",
        description: "Returns this description in OpenAPI 3.1.",
        answer: "The description.",
        refusals: NONE,
        example: || None,
    },
    Documented {
        method: POST,
        path: "/login",
        id: "logIn",
        summary: "Log in with a ticket",
        description: "Exchanges a ticket, which `fastness open` makes and which is good once, for a token.",
        answer: "The ticket was good.",
        refusals: Refusals { body: true, ..NONE },
        example: || Some(json!({"ticket": "the-ticket-from-fastness-open"})),
    },
];
