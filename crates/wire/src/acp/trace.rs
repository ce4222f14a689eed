//! The trace a caller names in `_meta.traceparent`, which ACP reserves for W3C Trace Context.

use std::borrow::Cow;

use domain::TraceParent;
use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(rename = "_meta", borrow)]
    meta: Option<Meta<'a>>,
}

#[derive(Deserialize)]
struct Meta<'a> {
    #[serde(borrow)]
    traceparent: Option<Cow<'a, str>>,
}

/// The caller's trace, if the parameters name a valid one.
#[must_use]
pub fn trace_parent(params: Option<&RawValue>) -> Option<TraceParent> {
    let text = params?.get();
    // Few clients send one; the others should not have their prompts parsed for it.
    if !text.contains("\"traceparent\"") {
        return None;
    }
    let params: Params<'_> = serde_json::from_str(text).ok()?;
    params.meta?.traceparent?.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::trace_parent;

    fn trace(params: &str) -> Option<String> {
        let params: Box<RawValue> = serde_json::from_str(params).unwrap();
        trace_parent(Some(&params)).map(|parent| parent.id().to_string())
    }

    #[test]
    fn only_a_valid_traceparent_in_meta_counts() {
        let valid = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let named = format!("{{\"sessionId\":\"x\",\"_meta\":{{\"traceparent\":\"{valid}\"}}}}");
        assert_eq!(
            trace(&named).as_deref(),
            Some("4bf92f3577b34da6a3ce929d0e0e4736")
        );
        for other in [
            format!("{{\"traceparent\":\"{valid}\"}}"),
            format!("{{\"_meta\":{{\"traceparent\":\"{valid}x\"}}}}"),
            "{\"_meta\":{\"traceparent\":7}}".to_owned(),
            "{\"_meta\":[\"traceparent\"]}".to_owned(),
            "[\"traceparent\"]".to_owned(),
        ] {
            assert_eq!(trace(&other), None, "{other}");
        }
    }
}
