//! When a failed request is sent again, and how long to wait before that.

use std::time::{Duration, SystemTime};

use domain::clock::Timestamp;
use domain::limits::{MODEL_BACKOFF_MAX, MODEL_BACKOFF_MIN, MODEL_RETRY_AFTER_MAX};

use crate::model::random_bits;

/// Whether a request that was answered with `status` may succeed when sent again.
pub(crate) fn may_help(status: u16) -> bool {
    matches!(status, 408 | 409 | 425 | 429 | 500..=599)
}

/// How long to wait after try number `tries` (from 1): what the server asked for, else twice as
/// long as the time before, with jitter so that many clients do not come back at once.
pub(crate) fn wait_after(tries: u32, retry_after: Option<Duration>) -> Duration {
    match retry_after {
        Some(asked) => asked.min(MODEL_RETRY_AFTER_MAX),
        None => backoff(tries, random_bits()),
    }
}

/// The `Retry-After` of an answer: seconds, a date, or the milliseconds that some add.
///
/// A date is compared with the server's own `Date`, so that it does not matter what our clock says.
pub(crate) fn retry_after(header: impl Fn(&str) -> Option<String>) -> Option<Duration> {
    let number = |name: &str| header(name)?.trim().parse::<f64>().ok();
    let millis = number("retry-after-ms").map(|millis| millis / 1e3);
    if let Some(seconds) = millis.or_else(|| number("retry-after")) {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = |name: &str| httpdate::parse_http_date(header(name)?.trim()).ok();
    let until = date("retry-after")?;
    let now = date("date").unwrap_or_else(now);
    // A time that has passed means: now.
    Some(until.duration_since(now).unwrap_or_default())
}

fn now() -> SystemTime {
    let since_1970 = Duration::try_from_secs_f64(Timestamp::now().0);
    SystemTime::UNIX_EPOCH + since_1970.unwrap_or_default()
}

/// Between half of and the whole of the doubled wait.
fn backoff(tries: u32, random: u64) -> Duration {
    let doublings = tries.saturating_sub(1).min(16);
    let whole = (MODEL_BACKOFF_MIN * 2_u32.pow(doublings)).min(MODEL_BACKOFF_MAX);
    let half = whole / 2;
    let jitter_ms = random % (u64::try_from(half.as_millis()).unwrap_or(0) + 1);
    half + Duration::from_millis(jitter_ms)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use domain::limits::{MODEL_BACKOFF_MAX, MODEL_RETRY_AFTER_MAX};

    use super::{backoff, may_help, retry_after, wait_after};

    #[test]
    fn waits_double_with_jitter_and_have_a_ceiling() {
        let millis = |tries, random| backoff(tries, random).as_millis();
        assert_eq!(
            [millis(1, 0), millis(2, 0), millis(3, 0)],
            [250, 500, 1_000]
        );
        assert_eq!(millis(1, 250), 500);
        assert!(backoff(60, u64::MAX) <= MODEL_BACKOFF_MAX);
    }

    #[test]
    fn the_server_says_how_long_to_wait_within_reason() {
        let asked = |name: &'static str, value: &'static str| {
            retry_after(move |wanted| (wanted == name).then(|| value.to_owned()))
        };
        assert_eq!(asked("retry-after", "2"), Some(Duration::from_secs(2)));
        let short = asked("retry-after-ms", "70");
        assert_eq!(short, Some(Duration::from_millis(70)));
        assert_eq!(asked("retry-after", "-1"), None);
        assert_eq!(asked("retry-after", "soon"), None);
        assert_eq!(wait_after(1, short), Duration::from_millis(70));
        let endless = asked("retry-after", "1e15");
        assert_eq!(wait_after(1, endless), MODEL_RETRY_AFTER_MAX);
    }

    #[test]
    fn a_date_counts_from_the_servers_own() {
        let answer = |date: &'static str| {
            retry_after(move |wanted| match wanted {
                "retry-after" => Some("Wed, 21 Oct 2026 07:28:00 GMT".to_owned()),
                "date" => Some(date.to_owned()),
                _ => None,
            })
        };
        let before = answer("Wed, 21 Oct 2026 07:27:50 GMT");
        assert_eq!(before, Some(Duration::from_secs(10)));
        let after = answer("Wed, 21 Oct 2026 07:29:00 GMT");
        assert_eq!(after, Some(Duration::ZERO));
        // Without one our clock must do, for which that day is past or still to come.
        assert!(answer("").is_some());
    }

    #[test]
    fn only_errors_that_may_pass_are_tried_again() {
        for status in [408, 409, 425, 429, 500, 502, 503, 529] {
            assert!(may_help(status), "{status}");
        }
        for status in [200, 301, 400, 401, 403, 404, 413, 422] {
            assert!(!may_help(status), "{status}");
        }
    }
}
