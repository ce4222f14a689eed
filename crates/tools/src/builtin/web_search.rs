//! `web_search`: what the operator's search provider finds.

use domain::limits::WEB_SEARCH_RESULTS_MAX;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Method};
use netguard::Request;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Outcome, Running, RunsOut, Shown, Tool, running, show_out};
use crate::roots::Roots;
use crate::web::{Search, SearchProvider, Web};

/// As many as a person looks at.
const RESULTS_DEFAULT: usize = 8;

/// A summary of what was found; the page itself is for `web_fetch`.
const SNIPPET_CHARS_MAX: usize = 600;

pub(crate) struct WebSearch;

#[derive(Deserialize)]
struct Input {
    query: String,
    #[serde(default)]
    limit: Option<usize>,
}

/// One thing that was found.
struct Found {
    title: String,
    url: String,
    snippet: String,
}

impl Tool for WebSearch {
    fn name(&self) -> &'static str {
        "web_search"
    }

    fn description(&self) -> &'static str {
        "Searches the web and returns titles, addresses and summaries. They do not come from the user."
    }

    fn input_schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What to search for"},
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": WEB_SEARCH_RESULTS_MAX,
                    "description": "Number of results",
                },
            },
            "required": ["query"],
        })
    }

    fn show(&self, input: &Value, _: &Roots) -> Shown {
        let query = input.get("query").and_then(Value::as_str);
        show_out(&format!("Search for {}", query.unwrap_or("something")))
    }

    fn only_looks(&self) -> bool {
        true
    }

    fn out(&self) -> Option<&dyn RunsOut> {
        Some(self)
    }
}

impl RunsOut for WebSearch {
    fn run(&self, input: Value, web: Web) -> Running {
        running(self.name(), input, |input: Input| async move {
            let Some(search) = web.search else {
                return Outcome::failed(
                    "No search provider is set, so nothing was searched. The operator can set one: \
                     FASTNESS_SEARCH_PROVIDER is brave, tavily or searxng. Pages whose address is \
                     known can be read with web_fetch.",
                );
            };
            let limit = input.limit.unwrap_or(RESULTS_DEFAULT);
            let limit = limit.clamp(1, WEB_SEARCH_RESULTS_MAX);
            match ask(&search, &input.query, limit).await {
                Ok(found) => Outcome::completed(written(&found)),
                Err(problem) => Outcome::failed(format!("The search failed: {problem}.")),
            }
        })
    }
}

/// Asks the provider. What goes wrong is said without its address or key.
async fn ask(search: &Search, query: &str, limit: usize) -> Result<Vec<Found>, String> {
    let request = request(search, query, limit).ok_or("it could not be asked")?;
    let response = search.guard.fetch(request).await;
    let response = response.map_err(|error| error.to_string())?;
    if !response.status.is_success() {
        return Err(format!("the search provider answered {}", response.status));
    }
    let answer: Value = serde_json::from_slice(&response.body)
        .map_err(|_| "the search provider did not answer with JSON")?;
    let results = match search.provider {
        SearchProvider::Brave(_) => &answer["web"]["results"],
        SearchProvider::Tavily(_) | SearchProvider::Searxng => &answer["results"],
    };
    let results = results.as_array().map(Vec::as_slice).unwrap_or_default();
    Ok(results.iter().filter_map(found).take(limit).collect())
}

fn request(search: &Search, query: &str, limit: usize) -> Option<Request> {
    let secret = |key: &str| {
        let mut value = HeaderValue::from_str(key).ok()?;
        value.set_sensitive(true);
        Some(value)
    };
    let mut url = url::Url::parse(&search.endpoint).ok()?;
    let mut request = Request::get(String::new());
    let headers = &mut request.headers;
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    match &search.provider {
        SearchProvider::Brave(key) => {
            let count = limit.to_string();
            url.query_pairs_mut()
                .append_pair("q", query)
                .append_pair("count", &count);
            let name = HeaderName::from_static("x-subscription-token");
            headers.insert(name, secret(key.reveal())?);
        }
        SearchProvider::Searxng => {
            url.query_pairs_mut()
                .append_pair("q", query)
                .append_pair("format", "json");
        }
        SearchProvider::Tavily(key) => {
            headers.insert(AUTHORIZATION, secret(&format!("Bearer {}", key.reveal()))?);
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            request.method = Method::POST;
            let body = json!({"query": query, "max_results": limit});
            request.body = body.to_string().into();
        }
    }
    request.url = url.into();
    Some(request)
}

/// The providers name the same things differently.
fn found(result: &Value) -> Option<Found> {
    let text = |name: &str| result.get(name).and_then(Value::as_str);
    let snippet = text("description").or_else(|| text("content"));
    let snippet: String = snippet
        .unwrap_or_default()
        .chars()
        .take(SNIPPET_CHARS_MAX)
        .collect();
    let url = text("url")?;
    Some(Found {
        title: super::one_line(text("title").unwrap_or(url)),
        url: super::one_line(url),
        snippet: super::one_line(&without_tags(&snippet)),
    })
}

/// Providers mark the words that were searched for.
fn without_tags(text: &str) -> String {
    ["<strong>", "</strong>", "<b>", "</b>", "<em>", "</em>"]
        .iter()
        .fold(text.to_owned(), |text, tag| text.replace(tag, ""))
}

fn written(found: &[Found]) -> String {
    if found.is_empty() {
        return "Nothing was found.".to_owned();
    }
    let lines = found.iter().enumerate().map(|(index, found)| {
        let Found {
            title,
            url,
            snippet,
        } = found;
        format!("{}. {title}\n   {url}\n   {snippet}\n", index + 1)
    });
    super::untrusted("search result", &lines.collect::<String>())
}
