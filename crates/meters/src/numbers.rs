//! The three kinds of number, and a table of them by label.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use crate::label::Label;

/// Something that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// At zero.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Counts one.
    pub fn count(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts so many at once.
    pub fn add(&self, amount: usize) {
        self.0.fetch_add(amount as u64, Ordering::Relaxed);
    }

    /// How many there were.
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Something that goes up and down.
#[derive(Debug, Default)]
pub struct Gauge(AtomicI64);

impl Gauge {
    /// At zero.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicI64::new(0))
    }

    /// Goes up by `amount`.
    pub fn add(&self, amount: usize) {
        // More than an i64 holds is not in any memory.
        self.0.fetch_add(amount as i64, Ordering::Relaxed);
    }

    /// Goes down by `amount`.
    pub fn sub(&self, amount: usize) {
        self.0.fetch_sub(amount as i64, Ordering::Relaxed);
    }

    /// One more, for as long as the answer lives.
    #[must_use]
    pub fn hold(&'static self) -> Held {
        self.add(1);
        Held(self)
    }

    /// Where it stands.
    pub fn value(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// One that counts in a [`Gauge`] until it is dropped.
#[derive(Debug)]
pub struct Held(&'static Gauge);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.sub(1);
    }
}

/// Upper bounds of the buckets in microseconds: from a quick sync to a turn of several minutes.
pub(crate) const BOUNDS: [u64; 16] = [
    500,
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    60_000_000,
    300_000_000,
];

/// How long something took, sorted into buckets.
#[derive(Debug)]
pub struct Histogram {
    /// One for each bound, and one for what was longer than the last.
    buckets: [AtomicU64; BOUNDS.len() + 1],
    sum_micros: AtomicU64,
}

impl Histogram {
    /// Empty.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            buckets: [const { AtomicU64::new(0) }; BOUNDS.len() + 1],
            sum_micros: AtomicU64::new(0),
        }
    }

    /// Takes in one duration.
    pub fn observe(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let place = BOUNDS.partition_point(|bound| *bound < micros);
        if let Some(bucket) = self.buckets.get(place) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.sum_micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// For each bound how many were not longer, and last how many there were.
    pub(crate) fn cumulative(&self) -> [u64; BOUNDS.len() + 1] {
        let mut so_far = 0;
        self.buckets.each_ref().map(|bucket| {
            so_far += bucket.load(Ordering::Relaxed);
            so_far
        })
    }

    pub(crate) fn sum_micros(&self) -> u64 {
        self.sum_micros.load(Ordering::Relaxed)
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

/// One number for each value of a label.
#[derive(Debug)]
pub struct Per<L, M, const N: usize> {
    numbers: [M; N],
    label: PhantomData<fn(L)>,
}

impl<L: Label, M, const N: usize> Per<L, M, N> {
    /// In the order of the label's values.
    #[must_use]
    pub const fn new(numbers: [M; N]) -> Self {
        // A table for another label would not compile.
        const { assert!(N == L::NAMES.len()) };
        Self {
            numbers,
            label: PhantomData,
        }
    }

    /// The number of `label`.
    pub fn of(&self, label: L) -> &M {
        &self.numbers[label.index()]
    }

    /// Every value of the label with its number.
    pub(crate) fn each(&self) -> impl Iterator<Item = (&'static str, &M)> {
        L::NAMES.iter().copied().zip(&self.numbers)
    }
}

impl<L: Label, const N: usize> Per<L, Counter, N> {
    /// Counters at zero.
    #[must_use]
    pub const fn counters() -> Self {
        Self::new([const { Counter::new() }; N])
    }

    /// All of them together.
    pub fn sum(&self) -> u64 {
        self.numbers.iter().map(Counter::value).sum()
    }
}

impl<L: Label, const N: usize> Per<L, Gauge, N> {
    /// Gauges at zero.
    #[must_use]
    pub const fn gauges() -> Self {
        Self::new([const { Gauge::new() }; N])
    }
}

impl<L: Label, const N: usize> Per<L, Histogram, N> {
    /// Empty histograms.
    #[must_use]
    pub const fn histograms() -> Self {
        Self::new([const { Histogram::new() }; N])
    }
}
