//! The outer object of a message: which of its six keys are there, and what they make of it.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::error::RpcError;
use super::id::RequestId;
use super::{Incoming, Refusal};

/// The keys of a message, each as it was written.
///
/// Reading one fails only on bad syntax. A key that stands twice is noted rather than refused at
/// once, so that bad syntax after it is still found first.
#[derive(Default)]
pub(super) struct Envelope<'a> {
    jsonrpc: Option<&'a RawValue>,
    id: Option<&'a RawValue>,
    method: Option<&'a RawValue>,
    params: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    repeated: Repeated,
}

impl Envelope<'_> {
    /// Says what kind of message it is. A `result` or an `error` makes it a response, whatever
    /// else is there.
    pub(super) fn interpret(self) -> Result<Incoming, Refusal> {
        if self.result.is_some() || self.error.is_some() {
            Ok(self.into_response().unwrap_or_else(Incoming::Ignored))
        } else {
            self.into_call()
        }
    }

    fn into_response(self) -> Result<Incoming, &'static str> {
        if self.repeated != Repeated::None {
            return Err("a key of the response stands twice");
        }
        if !self.is_version_2() {
            return Err("the response is not JSON-RPC 2.0");
        }
        let id = self.id.ok_or("the response has no id")?;
        let id = RequestId::from_json(id.get()).map_err(|_| "the id of the response is no id")?;
        let outcome = match (self.result, self.error) {
            (Some(result), None) => Ok(result.to_owned()),
            (None, Some(error)) => Err(serde_json::from_str(error.get())
                .map_err(|_| "the error of the response is no error object")?),
            (Some(_), Some(_)) => return Err("the response has both a result and an error"),
            (None, None) => return Err("the response has neither result nor error"),
        };
        Ok(Incoming::Response { id, outcome })
    }

    fn into_call(self) -> Result<Incoming, Refusal> {
        let id = self.request_id()?;
        let answer_to = id.clone().unwrap_or_else(RequestId::null);
        let refuse = |reason: &str| Refusal {
            id: answer_to.clone(),
            error: RpcError::invalid_request(reason),
        };
        if self.repeated != Repeated::None {
            return Err(refuse("a key of the message stands twice"));
        }
        if !self.is_version_2() {
            return Err(refuse("`jsonrpc` must be \"2.0\""));
        }
        let method = self.method.ok_or_else(|| refuse("`method` is missing"))?;
        let method: String =
            serde_json::from_str(method.get()).map_err(|_| refuse("`method` must be a string"))?;
        let params = self.params.map(RawValue::to_owned);
        if params.as_deref().is_some_and(|raw| !is_structured(raw)) {
            if id.is_none() {
                // A notification is never answered, not even if it cannot be used.
                return Ok(Incoming::Ignored(
                    "the params of a notification are neither an object nor an array",
                ));
            }
            return Err(refuse("`params` must be an object or an array"));
        }
        Ok(match id {
            Some(id) => Incoming::Request { id, method, params },
            None => Incoming::Notification { method, params },
        })
    }

    fn request_id(&self) -> Result<Option<RequestId>, Refusal> {
        let refuse = |reason| Refusal::nameless(RpcError::invalid_request(reason));
        if self.repeated == Repeated::Id {
            return Err(refuse("`id` stands twice"));
        }
        self.id
            .map(|raw| RequestId::from_json(raw.get()))
            .transpose()
            .map_err(|_| refuse("`id` must be a short string, an integer or null"))
    }

    fn is_version_2(&self) -> bool {
        self.jsonrpc
            .and_then(|raw| serde_json::from_str::<Cow<'_, str>>(raw.get()).ok())
            .is_some_and(|version| version == "2.0")
    }
}

/// Whether a key stands twice; a repeated `id` also means that there is none to answer to.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Repeated {
    #[default]
    None,
    Id,
    Other,
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum Key {
    Jsonrpc,
    Id,
    Method,
    Params,
    Result,
    Error,
    #[serde(other)]
    Unknown,
}

impl<'de: 'a, 'a> Deserialize<'de> for Envelope<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EnvelopeVisitor)
    }
}

struct EnvelopeVisitor;

impl<'de> Visitor<'de> for EnvelopeVisitor {
    type Value = Envelope<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON-RPC message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut envelope = Envelope::default();
        while let Some(key) = map.next_key::<Key>()? {
            let is_id = matches!(key, Key::Id);
            let slot = match key {
                Key::Jsonrpc => &mut envelope.jsonrpc,
                Key::Id => &mut envelope.id,
                Key::Method => &mut envelope.method,
                Key::Params => &mut envelope.params,
                Key::Result => &mut envelope.result,
                Key::Error => &mut envelope.error,
                Key::Unknown => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            if slot.replace(map.next_value()?).is_some() && envelope.repeated != Repeated::Id {
                envelope.repeated = if is_id { Repeated::Id } else { Repeated::Other };
            }
        }
        Ok(envelope)
    }
}

fn is_structured(raw: &RawValue) -> bool {
    raw.get().starts_with(['{', '['])
}
