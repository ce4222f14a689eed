//! The one place that reads the wall clock, so that everything else takes time as an argument.

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since 1970 as events store them.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Timestamp(pub f64);

impl Timestamp {
    /// The time now, to the microsecond.
    ///
    /// A clock before 1970 reads as 0: timestamps inform people, order comes from sequence numbers.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    pub fn now() -> Self {
        let elapsed = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        // Below 2^53 for the next 285 years, so the conversion is exact.
        #[expect(clippy::cast_precision_loss, reason = "microseconds fit 53 bits")]
        let micros = elapsed.as_micros() as f64;
        Self(micros / 1e6)
    }

    /// This time as an RFC 3339 string in UTC, as ACP's `updatedAt` wants it.
    #[must_use]
    pub fn to_rfc3339(self) -> String {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "whole milliseconds of a date people can meet"
        )]
        let millis = (self.0 * 1e3) as i64;
        let (days, rest) = (millis.div_euclid(86_400_000), millis.rem_euclid(86_400_000));
        let (year, month, day) = civil_from_days(days);
        let (hour, minute) = (rest / 3_600_000, rest / 60_000 % 60);
        let (second, milli) = (rest / 1_000 % 60, rest % 1_000);
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
    }
}

/// Year, month and day of a count of days since 1970-01-01 in the proleptic Gregorian calendar.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    // Counting from 1 March puts the leap day last, so that months have fixed offsets.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_shifted + 2) / 5 + 1;
    let month = if month_shifted < 10 {
        month_shifted + 3
    } else {
        month_shifted - 9
    };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::Timestamp;

    #[test]
    fn timestamps_print_as_rfc_3339_across_leap_days_and_centuries() {
        let shown = |seconds: f64| Timestamp(seconds).to_rfc3339();
        assert_eq!(shown(0.0), "1970-01-01T00:00:00.000Z");
        assert_eq!(shown(951_782_400.0), "2000-02-29T00:00:00.000Z");
        assert_eq!(shown(1_700_000_000.25), "2023-11-14T22:13:20.250Z");
        assert_eq!(shown(4_107_542_400.0), "2100-03-01T00:00:00.000Z");
    }
}
