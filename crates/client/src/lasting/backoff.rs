//! How long to wait before the next try: longer each time, and never the same for all.

use std::time::Duration;

/// The wait before try number `tries` (the first is 0): doubled from `first` up to `most`, of which
/// `chance` takes away up to a half. Many clients that lost their server at the same moment come back
/// spread over that half.
pub(super) fn delay(tries: u32, first: Duration, most: Duration, chance: f64) -> Duration {
    let whole = first.saturating_mul(2_u32.saturating_pow(tries)).min(most);
    whole.mul_f64(1.0 - chance.clamp(0.0, 1.0) / 2.0)
}

/// A number from 0 to 1 that nobody can guess.
pub(super) fn chance() -> f64 {
    let (high, _) = uuid::Uuid::new_v4().as_u64_pair();
    // The upper 32 bits are random in every UUID v4.
    f64::from(u32::try_from(high >> 32).unwrap_or_default()) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{chance, delay};

    const FIRST: Duration = Duration::from_secs(1);
    const MOST: Duration = Duration::from_secs(30);

    #[test]
    fn waits_double_from_one_second_to_thirty() {
        let longest: Vec<u64> = (0..7)
            .map(|tries| delay(tries, FIRST, MOST, 0.0).as_secs())
            .collect();
        assert_eq!(longest, [1, 2, 4, 8, 16, 30, 30]);
        assert_eq!(delay(60, FIRST, MOST, 1.0), Duration::from_secs(15));
    }

    #[test]
    fn b_21_clients_that_lost_their_server_together_come_back_spread_out() {
        let mut by_twentieth = [0; 20];
        for _ in 0..10_000 {
            let waited = delay(0, FIRST, MOST, chance());
            assert!(waited >= FIRST / 2 && waited <= FIRST);
            let part = (waited - FIRST / 2).as_millis() / 25;
            by_twentieth[usize::try_from(part).unwrap().min(19)] += 1;
        }
        // 500 each on average; a tenfold crowd at any moment would be a storm.
        assert!(
            by_twentieth.iter().all(|count| (300..800).contains(count)),
            "{by_twentieth:?}"
        );
    }
}
