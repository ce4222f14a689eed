//! A tool server that lets in only who has logged in, and the authorization server that it trusts, in
//! one listener on this machine.
//!
//! Its refresh tokens work once, as they should: two programs that renew at the same time betray
//! themselves. Its tool `admin` wants more than its tool `whoami`. Clients are sent back only to where they
//! said when they registered, port and all.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Such a server, while it is held.
#[derive(Debug)]
pub struct Guarded {
    port: u16,
    state: Arc<Mutex<State>>,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Debug, Default)]
struct State {
    origin: String,
    /// What each access token is good for.
    tokens: BTreeMap<String, String>,
    /// What each refresh token is good for; it works once.
    refresh: BTreeMap<String, String>,
    /// What each code was given for: its challenge, and what it is good for.
    codes: BTreeMap<String, (String, String)>,
    issued: usize,
    /// Where each client is sent back to.
    clients: BTreeMap<String, String>,
    /// How many have registered.
    registered: usize,
    /// Whether it does not want to hear of logouts.
    is_deaf: bool,
    posing: Posing,
    /// How it answers requests to renew a token, if it refuses them for now.
    busy: Option<(u16, Option<u64>)>,
    seen: Vec<Visit>,
}

/// Where the authorization server does not say that it is the one that was named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Posing {
    /// Nowhere.
    #[default]
    Nowhere,
    /// It describes itself as one that is called nearly the same.
    InDescription,
    /// Its answers say that they come from such a one.
    InAnswers,
    /// Its answers say nothing, though it has announced that they do.
    BySilence,
}

/// A request that the server got.
#[derive(Clone, Debug)]
pub struct Visit {
    /// Method and path.
    pub line: String,
    /// What stands in the query or the form.
    pub form: BTreeMap<String, String>,
    /// The header of that name.
    pub authorization: Option<String>,
    /// How it was answered.
    pub status: u16,
}

impl Guarded {
    /// Starts one.
    ///
    /// # Panics
    /// If this machine has no port left.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.unwrap_or_else(|error| panic!("no port is left: {error}"));
        let at = listener.local_addr();
        let port = at
            .unwrap_or_else(|error| panic!("no address: {error}"))
            .port();
        let state = State {
            origin: format!("http://127.0.0.1:{port}"),
            ..State::default()
        };
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = Arc::clone(&shared);
                tokio::spawn(async move { serve(stream, &state).await });
            }
        });
        Self { port, state, task }
    }

    /// Where its tools are.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }

    /// From now on no access token is good that was given before.
    pub fn expire(&self) {
        self.state().tokens.clear();
    }

    /// From now on nothing is good that was given before.
    pub fn forget(&self) {
        let mut state = self.state();
        state.tokens.clear();
        state.refresh.clear();
    }

    /// From now on no client is known that was known before.
    pub fn forget_clients(&self) {
        self.state().clients.clear();
    }

    /// From now on it does not hear of logouts.
    pub fn stop_hearing(&self) {
        self.state().is_deaf = true;
    }

    /// From now on no token is renewed, with this status and `Retry-After`; `None` ends that.
    pub fn be_busy(&self, busy: Option<(u16, Option<u64>)>) {
        self.state().busy = busy;
    }

    /// From now on it does not say who it is.
    pub fn pose(&self, posing: Posing) {
        self.state().posing = posing;
    }

    /// All tokens that it has ever given out look like this.
    #[must_use]
    pub fn secret(&self) -> &'static str {
        "s3cret-"
    }

    /// The requests to `line`, in order.
    #[must_use]
    pub fn visits(&self, line: &str) -> Vec<Visit> {
        let state = self.state();
        let visits = state.seen.iter().filter(|visit| visit.line == line);
        visits.cloned().collect()
    }

    /// All requests.
    #[must_use]
    pub fn all_visits(&self) -> Vec<Visit> {
        self.state().seen.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        #[expect(clippy::disallowed_methods, reason = "it waits for the network only")]
        self.task.abort();
    }
}

/// What a browser does with an address: it goes there, and where it is sent. The last status.
///
/// # Panics
/// If nobody answers.
pub async fn browse(address: &str) -> u16 {
    let got = reqwest::get(address).await;
    let got = got.unwrap_or_else(|error| panic!("nobody answers: {error}"));
    got.status().as_u16()
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Asked {
    line: String,
    query: BTreeMap<String, String>,
    authorization: Option<String>,
    body: Vec<u8>,
}

struct Said {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Value,
}

impl Said {
    fn json(status: u16, body: Value) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body,
        }
    }
}

async fn serve(mut stream: TcpStream, state: &Mutex<State>) {
    while let Some(asked) = read(&mut stream).await {
        let said = {
            let mut state = lock(state);
            let said = answer(&asked, &mut state);
            let mut form = asked.query.clone();
            if asked.line != "POST /mcp" {
                form.extend(pairs(&String::from_utf8_lossy(&asked.body)));
            }
            state.seen.push(Visit {
                line: asked.line.clone(),
                form,
                authorization: asked.authorization.clone(),
                status: said.status,
            });
            said
        };
        let body = match said.body.is_null() {
            true => String::new(),
            false => said.body.to_string(),
        };
        let mut head = format!(
            "HTTP/1.1 {} x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n",
            said.status,
            body.len()
        );
        for (name, value) in said.headers {
            head += &format!("{name}: {value}\r\n");
        }
        let answered = stream
            .write_all(format!("{head}\r\n{body}").as_bytes())
            .await;
        if answered.is_err() {
            return;
        }
    }
}

async fn read(stream: &mut TcpStream) -> Option<Asked> {
    let mut read = Vec::new();
    let end = loop {
        if let Some(end) = read.windows(4).position(|end| end == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(&mut read).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(read[..end].to_vec()).ok()?;
    let header = |wanted: &str| {
        let mut lines = head.lines().skip(1).filter_map(|line| line.split_once(':'));
        let found = lines.find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        found.map(|(_, value)| value.trim().to_owned())
    };
    let length = header("content-length").unwrap_or_default();
    let length: usize = length.parse().unwrap_or_default();
    let mut body = read[end + 4..].to_vec();
    while body.len() < length {
        if stream.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    let mut words = head.lines().next()?.split(' ');
    let (method, place) = (words.next()?, words.next()?);
    let (path, query) = place.split_once('?').unwrap_or((place, ""));
    Some(Asked {
        line: format!("{method} {path}"),
        query: pairs(query),
        authorization: header("authorization"),
        body,
    })
}

fn pairs(text: &str) -> BTreeMap<String, String> {
    let plain = |text: &str| {
        let mut bytes = Vec::new();
        let mut rest = text.as_bytes();
        while let [first, after @ ..] = rest {
            rest = after;
            match (first, after) {
                (b'%', [high, low, after @ ..]) => {
                    let digits = [*high, *low];
                    let digits = std::str::from_utf8(&digits).unwrap_or_default();
                    bytes.push(u8::from_str_radix(digits, 16).unwrap_or(b'?'));
                    rest = after;
                }
                (b'+', _) => bytes.push(b' '),
                _ => bytes.push(*first),
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs
        .map(|(name, value)| (plain(name), plain(value)))
        .collect()
}

fn answer(asked: &Asked, state: &mut State) -> Said {
    let origin = state.origin.clone();
    let issuer = match state.posing {
        Posing::InDescription => format!("{origin}/"),
        Posing::Nowhere | Posing::InAnswers | Posing::BySilence => origin.clone(),
    };
    match asked.line.as_str() {
        "POST /mcp" => tools(asked, state),
        "GET /.well-known/oauth-protected-resource/mcp" => Said::json(
            200,
            json!({"resource": format!("{origin}/mcp"), "authorization_servers": [origin],
                "scopes_supported": ["basic"]}),
        ),
        "GET /.well-known/oauth-authorization-server" => Said::json(
            200,
            json!({"issuer": issuer, "authorization_endpoint": format!("{origin}/authorize"),
                "token_endpoint": format!("{origin}/token"),
                "registration_endpoint": format!("{origin}/register"),
                "revocation_endpoint": format!("{origin}/revoke"),
                "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": ["none"],
                "authorization_response_iss_parameter_supported": true}),
        ),
        "POST /register" => register(asked, state),
        "POST /revoke" => revoke(asked, state),
        "GET /authorize" => authorize(asked, state),
        "POST /token" => token(asked, state),
        _ => Said::json(404, json!({})),
    }
}

fn register(asked: &Asked, state: &mut State) -> Said {
    let us: Value = serde_json::from_slice(&asked.body).unwrap_or_default();
    state.registered += 1;
    let id = format!("c{}", state.registered);
    let back = us["redirect_uris"][0].as_str().unwrap_or_default();
    state.clients.insert(id.clone(), back.to_owned());
    Said::json(201, json!({"client_id": id}))
}

fn revoke(asked: &Asked, state: &mut State) -> Said {
    let form = pairs(&String::from_utf8_lossy(&asked.body));
    if state.is_deaf {
        return Said::json(503, json!({}));
    }
    if let Some(token) = form.get("token") {
        state.tokens.remove(token);
        state.refresh.remove(token);
    }
    Said::json(200, Value::Null)
}

fn authorize(asked: &Asked, state: &mut State) -> Said {
    let of = |name: &str| asked.query.get(name).cloned().unwrap_or_default();
    let known = state.clients.get(&of("client_id"));
    // Of a client that it does not know it says so only when tokens are wanted, as some do.
    if known.is_some_and(|back| *back != of("redirect_uri")) {
        return Said::json(400, json!({"error": "invalid_request"}));
    }
    state.issued += 1;
    let code = format!("s3cret-code-{}", state.issued);
    let given = (of("code_challenge"), of("scope"));
    state.codes.insert(code.clone(), given);
    let (back, origin) = (of("redirect_uri"), &state.origin);
    let issuer = match state.posing {
        Posing::Nowhere | Posing::InDescription => format!("&iss={origin}"),
        Posing::InAnswers => format!("&iss={origin}/"),
        Posing::BySilence => String::new(),
    };
    let place = format!("{back}?code={code}&state={}{issuer}", of("state"));
    Said {
        status: 302,
        headers: vec![("location", place)],
        body: Value::Null,
    }
}

fn token(asked: &Asked, state: &mut State) -> Said {
    let form = pairs(&String::from_utf8_lossy(&asked.body));
    let of = |name: &str| form.get(name).cloned().unwrap_or_default();
    if let Some((status, retry_after)) = state.busy
        && of("grant_type") == "refresh_token"
    {
        let retry_after = retry_after.map(|seconds| ("retry-after", seconds.to_string()));
        return Said {
            status,
            headers: retry_after.into_iter().collect(),
            body: json!({"error": "slow_down"}),
        };
    }
    if !state.clients.contains_key(&of("client_id")) {
        return Said::json(401, json!({"error": "invalid_client"}));
    }
    let scope = match of("grant_type").as_str() {
        "authorization_code" => {
            let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(of("code_verifier")));
            let given = state.codes.remove(&of("code"));
            given.and_then(|(wanted, scope)| (wanted == challenge).then_some(scope))
        }
        "refresh_token" => state.refresh.remove(&of("refresh_token")),
        _ => None,
    };
    let Some(scope) = scope else {
        return Said::json(400, json!({"error": "invalid_grant"}));
    };
    state.issued += 1;
    let access = format!("s3cret-access-{}", state.issued);
    let refresh = format!("s3cret-refresh-{}", state.issued);
    state.tokens.insert(access.clone(), scope.clone());
    state.refresh.insert(refresh.clone(), scope);
    Said::json(
        200,
        json!({"access_token": access, "refresh_token": refresh, "token_type": "Bearer",
            "expires_in": 3600}),
    )
}

fn tools(asked: &Asked, state: &State) -> Said {
    let bearer = asked.authorization.as_deref();
    let bearer = bearer.and_then(|value| value.strip_prefix("Bearer "));
    let scope = bearer.and_then(|token| state.tokens.get(token));
    let place = format!("{}/.well-known/oauth-protected-resource/mcp", state.origin);
    let turned_away = |status, more: &str| Said {
        status,
        headers: vec![(
            "www-authenticate",
            format!("Bearer resource_metadata=\"{place}\"{more}"),
        )],
        body: json!({}),
    };
    let Some(scope) = scope else {
        return turned_away(401, "");
    };
    let message: Value = serde_json::from_slice(&asked.body).unwrap_or_default();
    let result = match message["method"].as_str().unwrap_or_default() {
        "initialize" => json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "guarded", "version": "1"}}),
        "tools/list" => json!({"tools": [
            {"name": "whoami", "inputSchema": {"type": "object"}},
            {"name": "admin", "inputSchema": {"type": "object"}}]}),
        "tools/call" => {
            let is_admin = scope.split(' ').any(|scope| scope == "admin");
            if message["params"]["name"] == "admin" && !is_admin {
                let more = ", error=\"insufficient_scope\", scope=\"admin\"";
                return turned_away(403, more);
            }
            json!({"content": [{"type": "text", "text": format!("good for {scope}")}]})
        }
        _ if message["id"].is_null() => return Said::json(202, Value::Null),
        _ => {
            let error = json!({"code": -32601, "message": "unknown"});
            let answer = json!({"jsonrpc": "2.0", "id": message["id"], "error": error});
            return Said::json(200, answer);
        }
    };
    let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
    Said::json(200, answer)
}
