//! The caller's trace, as W3C Trace Context names it, so that its logs and ours can be joined.

use std::fmt;
use std::str::FromStr;

/// A `traceparent`: the trace, and the caller's place in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    trace: u128,
    /// The caller's span.
    pub span: u64,
    /// Whether the caller records it.
    pub is_sampled: bool,
}

/// The name of a trace: 32 lower-case hexadecimal digits, not all zero.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TraceId(pub u128);

/// The string is not a `traceparent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a traceparent is version-trace-span-flags in lower-case hexadecimal digits")]
pub struct NotATraceParent;

impl TraceParent {
    /// The trace.
    #[must_use]
    pub fn id(&self) -> TraceId {
        TraceId(self.trace)
    }
}

impl FromStr for TraceParent {
    type Err = NotATraceParent;

    /// Takes version 00, and what later versions begin with.
    fn from_str(text: &str) -> Result<Self, NotATraceParent> {
        let mut parts = text.splitn(5, '-');
        let version = digits(parts.next(), 2)?;
        let trace = digits(parts.next(), 32)?;
        let span = digits(parts.next(), 16)?;
        let flags = digits(parts.next(), 2)?;
        let is_longer = parts.next().is_some();
        if version == 0xff || (version == 0 && is_longer) || trace == 0 || span == 0 {
            return Err(NotATraceParent);
        }
        Ok(Self {
            trace,
            span: u64::try_from(span).map_err(|_| NotATraceParent)?,
            is_sampled: flags & 1 == 1,
        })
    }
}

/// The value of exactly `length` lower-case hexadecimal digits.
fn digits(part: Option<&str>, length: usize) -> Result<u128, NotATraceParent> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let part = part
        .filter(|part| part.len() == length && part.bytes().all(is_digit))
        .ok_or(NotATraceParent)?;
    u128::from_str_radix(part, 16).map_err(|_| NotATraceParent)
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::{NotATraceParent, TraceParent};

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    #[test]
    fn a_traceparent_names_the_trace_the_span_and_whether_it_is_sampled() {
        let parent: TraceParent = format!("00-{TRACE}-00f067aa0ba902b7-01").parse().unwrap();
        assert_eq!(parent.id().to_string(), TRACE);
        assert_eq!(
            (parent.span, parent.is_sampled),
            (0x00f0_67aa_0ba9_02b7, true)
        );
        let later: Result<TraceParent, _> =
            format!("cc-{TRACE}-00f067aa0ba902b7-00-what-comes-later").parse();
        assert!(later.is_ok_and(|parent| !parent.is_sampled));
    }

    #[test]
    fn what_is_no_traceparent_is_refused() {
        for wrong in [
            "",
            "00",
            &format!("ff-{TRACE}-00f067aa0ba902b7-01"),
            &format!("00-{TRACE}-00f067aa0ba902b7-01-more"),
            &format!("00-{TRACE}-0000000000000000-01"),
            &format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32)),
            &format!("00-{}-00f067aa0ba902b7-01", TRACE.to_uppercase()),
            &format!("00-{TRACE}0-00f067aa0ba902b7-01"),
            &format!("00-{TRACE}-00f067aa0ba902b-01"),
            &format!("00-{TRACE}-00f067aa0ba902b7-1"),
            &format!("00-{TRACE}-+0f067aa0ba902b7-01"),
        ] {
            assert_eq!(
                wrong.parse::<TraceParent>(),
                Err(NotATraceParent),
                "{wrong}"
            );
        }
    }
}
