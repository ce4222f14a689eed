//! Numbers as people read them: quantiles, units, and a table that is Markdown as it stands.

use std::fmt;
use std::time::Duration;

/// Rows in the order in which they were measured.
#[derive(Debug, Default)]
pub(super) struct Table {
    rows: Vec<[String; 5]>,
}

/// A value and, where there is one, the bare value it is compared with.
#[derive(Debug)]
pub(super) struct Row<'a> {
    pub(super) what: &'a str,
    pub(super) measured: String,
    pub(super) beside: String,
    pub(super) ratio: Option<f64>,
    pub(super) aim: &'a str,
}

impl Table {
    pub(super) fn push(&mut self, row: Row<'_>) {
        let ratio = row.ratio.map_or_else(
            || "–".to_owned(),
            |ratio| match ratio {
                small if small < 2.0 => format!("{small:.2}×"),
                large => format!("{large:.1}×"),
            },
        );
        let or_dash = |text: String| {
            if text.is_empty() {
                "–".to_owned()
            } else {
                text
            }
        };
        self.rows.push([
            row.what.to_owned(),
            row.measured,
            or_dash(row.beside),
            ratio,
            or_dash(row.aim.to_owned()),
        ]);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = ["what", "measured", "beside it, same run", "ratio", "aim"].map(str::to_owned);
        let rows = || std::iter::once(&head).chain(&self.rows);
        let width = |column: usize| rows().map(|row| row[column].chars().count()).max();
        let widths: Vec<usize> = (0..head.len())
            .map(|column| width(column).unwrap_or(0))
            .collect();
        for (index, row) in rows().enumerate() {
            for (cell, width) in row.iter().zip(&widths) {
                write!(f, "| {cell:<width$} ")?;
            }
            writeln!(f, "|")?;
            if index == 0 {
                for width in &widths {
                    write!(f, "|{}", "-".repeat(width + 2))?;
                }
                writeln!(f, "|")?;
            }
        }
        Ok(())
    }
}

/// Durations of the same thing, done many times.
#[derive(Clone, Debug, Default)]
pub(super) struct Samples {
    sorted: Vec<Duration>,
}

impl Samples {
    pub(super) fn new(mut samples: Vec<Duration>) -> Self {
        samples.sort_unstable();
        Self { sorted: samples }
    }

    pub(super) fn p50(&self) -> Duration {
        self.quantile(50)
    }

    pub(super) fn p99(&self) -> Duration {
        self.quantile(99)
    }

    /// The median, as many times the other's median.
    pub(super) fn ratio(&self, other: &Self) -> Option<f64> {
        let other = other.p50().as_secs_f64();
        (other > 0.0).then(|| self.p50().as_secs_f64() / other)
    }

    fn quantile(&self, percent: usize) -> Duration {
        let last = self.sorted.len().saturating_sub(1);
        let at = (self.sorted.len() * percent)
            .div_ceil(100)
            .saturating_sub(1);
        self.sorted.get(at.min(last)).copied().unwrap_or_default()
    }
}

impl fmt::Display for Samples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (p50, p99) = (time(self.p50()), time(self.p99()));
        write!(f, "{p50} (p99 {p99})")
    }
}

/// A time with three digits that mean something.
pub(super) fn time(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match seconds {
        s if s >= 60.0 => format!("{:.0} min {:.0} s", (s / 60.0).floor(), s % 60.0),
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 0.001 => format!("{:.2} ms", s * 1e3),
        s => format!("{:.0} µs", s * 1e6),
    }
}

/// An amount of memory or disk.
pub(super) fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / (1024.0 * 1024.0))
}

/// The line above the table: on what, at which commit, and how busy it was.
pub(super) fn about_machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let cpus = read("/proc/cpuinfo");
    let model = cpus
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    let model = model
        .unwrap_or("unknown")
        .trim_start_matches([' ', '\t', ':']);
    let load = read("/proc/loadavg");
    let load = load.split(' ').next().unwrap_or_default();
    let git = |arguments: &[&str]| {
        let mut command = std::process::Command::new("git");
        let output = command.args(arguments).current_dir(super::root()).output();
        output.map_or_else(
            |_| String::new(),
            |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        )
    };
    let commit = git(&["rev-parse", "--short", "HEAD"]);
    let dirty = if git(&["status", "--porcelain"]).is_empty() {
        ""
    } else {
        " with changes"
    };
    format!("{cores} cores ({model}), load {load} at the start, commit {commit}{dirty}\n")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Row, Samples, Table, time};

    #[test]
    fn quantiles_are_samples_that_were_taken() {
        let samples = Samples::new((1..=200).rev().map(Duration::from_millis).collect());
        assert_eq!(samples.p50(), Duration::from_millis(100));
        assert_eq!(samples.p99(), Duration::from_millis(198));
        assert_eq!(Samples::default().p99(), Duration::ZERO);
    }

    #[test]
    fn times_are_shown_in_the_unit_that_fits() {
        let shown = [30, 1_500, 2_000_000, 90_000_000].map(|us| time(Duration::from_micros(us)));
        assert_eq!(shown, ["30 µs", "1.50 ms", "2.00 s", "1 min 30 s"]);
    }

    #[test]
    fn the_table_is_aligned_markdown() {
        let mut table = Table::default();
        table.push(Row {
            what: "binary",
            measured: "9.0 MiB".into(),
            beside: String::new(),
            ratio: None,
            aim: "≤ 25 MB",
        });
        let shown = table.to_string();
        let widths: Vec<usize> = shown.lines().map(|line| line.chars().count()).collect();
        assert_eq!(widths.len(), 3);
        assert!(widths.iter().all(|width| *width == widths[0]), "{shown}");
    }
}
