//! Gives back the program text that only the start needed.
//!
//! A page of it is a page of a file that the kernel has at hand anyway, and maps with its
//! neighbours. Whatever runs again comes back by itself; the rest is most of what an idle server
//! would hold.

use std::ffi::c_void;
use std::fs::File;
use std::io::Read as _;
use std::ops::Range;
use std::time::Duration;

use rustix::mm::{Advice, madvise};

/// When the start is over, also for a client that comes with it.
const START_TIME: Duration = Duration::from_millis(500);

/// Most of the list of mappings that is read: a few hundred lines.
const MAPS_BYTES_MAX: u64 = 256 * 1024;

/// Waits until the program has started, and gives back what only that needed.
pub(crate) async fn once_started() {
    tokio::time::sleep(START_TIME).await;
    // Reading the list may wait for whoever changes it.
    let trimmed = tokio::task::spawn_blocking(trim);
    // It is an economy, no more.
    let _ = trimmed.await;
}

fn trim() -> std::io::Result<()> {
    let mut maps = String::new();
    let file = File::open("/proc/self/maps")?;
    file.take(MAPS_BYTES_MAX).read_to_string(&mut maps)?;
    for range in maps.lines().filter_map(text_of_a_file) {
        give_back(&range);
    }
    Ok(())
}

/// The addresses of a line of `/proc/self/maps`, if it is program text, which nobody writes.
fn text_of_a_file(line: &str) -> Option<Range<usize>> {
    let mut fields = line.split_ascii_whitespace();
    let (from, to) = fields.next()?.split_once('-')?;
    let is_text = fields.next()? == "r-xp";
    let is_file = fields.nth(3)?.starts_with('/');
    let from = usize::from_str_radix(from, 16).ok()?;
    let to = usize::from_str_radix(to, 16).ok()?;
    (is_text && is_file && from < to).then_some(from..to)
}

#[expect(
    unsafe_code,
    reason = "the one way to tell the kernel which pages are not needed for now"
)]
fn give_back(text: &Range<usize>) {
    let start = std::ptr::with_exposed_provenance_mut::<c_void>(text.start);
    // SAFETY: the pages are a private mapping of a file that is not writable and so holds nothing
    // but the file's bytes; whoever touches one again gets the same bytes from the file.
    let advised = unsafe { madvise(start, text.len(), Advice::LinuxDontNeed) };
    if let Err(error) = advised {
        tracing::debug!(%error, "program text stays in memory");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_program_text_is_given_back() {
        let text = "7f00-8f00 r-xp 00001000 fe:00 123 /usr/bin/fastness";
        assert_eq!(text_of_a_file(text), Some(0x7f00..0x8f00));
        for other in [
            "7f00-8f00 r--p 00001000 fe:00 123 /usr/bin/fastness",
            "7f00-8f00 rw-p 00001000 fe:00 123 /usr/bin/fastness",
            "7f00-8f00 rwxp 00001000 fe:00 123 /usr/bin/fastness",
            "7f00-8f00 r-xp 00000000 00:00 0 [vdso]",
            "7f00-8f00 r-xp 00000000 00:00 0",
            "no such line",
            "",
        ] {
            assert_eq!(text_of_a_file(other), None, "{other}");
        }
    }

    #[test]
    fn the_program_goes_on_without_it() {
        trim().unwrap();
        trim().unwrap();
        assert_eq!("still here".len(), 10);
    }
}
