//! Room for clients: so many in all, so many for each named token, and so many requests a second
//! for each principal.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use auth::Principal;
use domain::Limits;
use domain::limits::REQUEST_RATES_MAX;
use tokio::time::Instant;

use crate::connection::pace::Bucket;

/// How many clients there are, and of whom.
#[derive(Clone, Debug)]
pub struct Slots(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    total_max: usize,
    per_token_max: usize,
    taken: Mutex<Taken>,
    rates: Mutex<HashMap<String, Bucket>>,
    requests_per_second: u32,
}

#[derive(Debug, Default)]
struct Taken {
    total: usize,
    /// By the token's own name; tokens without a client are not there.
    by_token: HashMap<String, usize>,
}

/// Room for one client, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    slots: Arc<Shared>,
    token: Option<String>,
}

impl Slots {
    /// As many as the limits allow.
    #[must_use]
    pub fn new(limits: &Limits) -> Self {
        Self(Arc::new(Shared {
            total_max: limits.connections_max,
            per_token_max: limits.connections_per_token_max,
            taken: Mutex::default(),
            rates: Mutex::default(),
            requests_per_second: limits.requests_per_second,
        }))
    }

    /// Room for one more client of `principal`, if there is any.
    pub(crate) fn take(&self, principal: &Principal) -> Option<Slot> {
        self.take_for(principal.token_id())
    }

    /// Counts a request of `principal`.
    ///
    /// # Errors
    /// In how many milliseconds the next one is welcome, if it sends too many.
    pub(crate) fn count_request(&self, principal: &Principal, now: Instant) -> Result<(), u64> {
        self.count_request_of(principal.id().as_str(), now)
    }

    fn count_request_of(&self, principal: &str, now: Instant) -> Result<(), u64> {
        let shared = &*self.0;
        let mut rates = shared.rates.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bucket) = rates.get_mut(principal) {
            return bucket.take(now);
        }
        if rates.len() >= REQUEST_RATES_MAX {
            // A full bucket is like none; if none is full, all start anew.
            rates.retain(|_, bucket| !bucket.is_full(now));
            if rates.len() >= REQUEST_RATES_MAX {
                rates.clear();
            }
        }
        let mut bucket = Bucket::of_requests(shared.requests_per_second, now);
        let taken = bucket.take(now);
        rates.insert(principal.to_owned(), bucket);
        taken
    }

    fn take_for(&self, token: Option<&str>) -> Option<Slot> {
        let shared = &*self.0;
        let mut taken = shared.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.total >= shared.total_max {
            return None;
        }
        if let Some(token) = token {
            let of_token = taken.by_token.get(token).copied().unwrap_or(0);
            if of_token >= shared.per_token_max {
                return None;
            }
            taken.by_token.insert(token.to_owned(), of_token + 1);
        }
        taken.total += 1;
        Some(Slot {
            slots: Arc::clone(&self.0),
            token: token.map(str::to_owned),
        })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let taken = self.slots.taken.lock();
        let mut taken = taken.unwrap_or_else(PoisonError::into_inner);
        taken.total = taken.total.saturating_sub(1);
        let Some(token) = &self.token else { return };
        if let Some(count) = taken.by_token.get_mut(token) {
            *count -= 1;
            if *count == 0 {
                taken.by_token.remove(token);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use domain::Limits;
    use domain::limits::REQUEST_RATES_MAX;
    use tokio::time::Instant;

    use super::Slots;

    #[tokio::test(start_paused = true)]
    async fn each_principal_has_its_own_request_rate() {
        let limits = Limits {
            requests_per_second: 5,
            ..Limits::default()
        };
        let slots = Slots::new(&limits);
        let start = Instant::now();
        for _ in 0..10 {
            assert_eq!(slots.count_request_of("token:a", start), Ok(()));
        }
        assert_eq!(slots.count_request_of("token:a", start), Err(200));
        assert_eq!(slots.count_request_of("local", start), Ok(()));
        let later = start + Duration::from_millis(200);
        assert_eq!(slots.count_request_of("token:a", later), Ok(()));
        // What is remembered is bounded.
        for number in 0..=REQUEST_RATES_MAX {
            let _ = slots.count_request_of(&number.to_string(), later);
        }
        assert!(slots.0.rates.lock().unwrap().len() <= REQUEST_RATES_MAX);
    }

    #[test]
    fn one_token_cannot_take_the_room_of_others_and_leaving_gives_it_back() {
        let limits = Limits {
            connections_max: 4,
            connections_per_token_max: 2,
            ..Limits::default()
        };
        let slots = Slots::new(&limits);
        let first = slots.take_for(Some("a")).unwrap();
        let second = slots.take_for(Some("a")).unwrap();
        assert!(slots.take_for(Some("a")).is_none());
        let other = slots.take_for(Some("b")).unwrap();
        drop(first);
        let third = slots.take_for(Some("a")).unwrap();
        // The person at this machine has no such limit, only the one for all.
        let local = slots.take_for(None).unwrap();
        assert!(slots.take_for(None).is_none());
        drop((second, third, other, local));
        let taken = slots.0.taken.lock().unwrap();
        assert_eq!((taken.total, taken.by_token.len()), (0, 0));
    }
}
