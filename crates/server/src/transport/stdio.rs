//! ACP on stdin and stdout: one JSON object per line, and nothing else on stdout.
//!
//! Both ends are threads of their own, because pipes and terminals block and a hop through the
//! runtime's pool for every line would cost more than the line.

use std::io::{BufRead, Write};
use std::sync::Arc;

use auth::Unauthorized;
use domain::ConnectionId;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use crate::connection::lanes::Lanes;
use crate::connection::outbox::{Close, Next, Outbox};
use crate::connection::{self, INBOUND_FRAMES_MAX, Inbound, Opening, Reach};
use crate::service::{FLUSH_TIME_MAX, Service};

/// Bytes a line buffer may keep between lines.
const LINE_CAPACITY_KEPT: usize = 64 * 1024;

/// Serves one client on `input` and `output` until the input ends, the output breaks, or the
/// service closes.
///
/// # Errors
/// If the service does not admit this process.
pub async fn serve<R, W>(service: &Arc<Service>, input: R, output: W) -> Result<(), Unauthorized>
where
    R: BufRead + Send + 'static,
    W: Write + Send + 'static,
{
    let principal = service.admit(&auth::Credential::ThisProcess)?;
    let outbox = Outbox::new(service.limits.outbox_bytes_max);
    let (frames, inbound) = mpsc::channel(INBOUND_FRAMES_MAX);
    let line_bytes_max = service.limits.line_bytes_max;
    // The reader may sit in a read for ever; it ends with the process.
    std::thread::spawn(move || read_lines(input, line_bytes_max, &frames));
    let (written, done) = oneshot::channel();
    let (runtime, writer_outbox) = (Handle::current(), outbox.clone());
    std::thread::spawn(move || {
        write_lines(&runtime, &writer_outbox, output);
        let _ = written.send(());
    });
    let id = ConnectionId::random();
    let opening = Opening {
        id,
        principal,
        source: inbound,
        lanes: Lanes::One(outbox.clone()),
        reach: Reach::Local,
        trace: None,
    };
    let serving = service
        .connections
        .spawn(connection::serve(Arc::clone(service), opening));
    let mut done = done;
    tokio::select! {
        _ = serving => outbox.close(Close::After(1000)),
        // Nobody reads what we say any more.
        _ = &mut done => return Ok(()),
    }
    // What was answered is also written, unless nobody takes it.
    let _ = tokio::time::timeout(FLUSH_TIME_MAX, done).await;
    Ok(())
}

/// Sends each line on as one frame; a line that is too long is skipped and reported.
fn read_lines(mut input: impl BufRead, line_bytes_max: usize, frames: &mpsc::Sender<Inbound>) {
    loop {
        let inbound = match read_line(&mut input, line_bytes_max) {
            Ok(Some(Some(line))) => Inbound::Frame(line.into()),
            Ok(Some(None)) => Inbound::TooLong,
            Ok(None) | Err(_) => return,
        };
        if frames.blocking_send(inbound).is_err() {
            return;
        }
    }
}

/// The next line without its end; `Some(None)` for one that is too long, `None` at the end.
///
/// # Errors
/// If the input cannot be read.
pub fn read_line(
    input: &mut impl BufRead,
    line_bytes_max: usize,
) -> std::io::Result<Option<Option<Vec<u8>>>> {
    let mut line = Vec::new();
    let mut too_long = false;
    loop {
        let available = match input.fill_buf() {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            other => other?,
        };
        if available.is_empty() {
            // The end. What stands before it without a newline is a message all the same.
            let nothing = line.is_empty() && !too_long;
            return Ok((!nothing).then(|| finish(line, too_long)));
        }
        let newline = available.iter().position(|byte| *byte == b'\n');
        let part = &available[..newline.unwrap_or(available.len())];
        if line.len() + part.len() > line_bytes_max {
            too_long = true;
            line = Vec::new();
        }
        if !too_long {
            line.extend_from_slice(part);
        }
        let used = part.len() + usize::from(newline.is_some());
        input.consume(used);
        if newline.is_some() {
            return Ok(Some(finish(line, too_long)));
        }
    }
}

fn finish(mut line: Vec<u8>, too_long: bool) -> Option<Vec<u8>> {
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    (!too_long).then_some(line)
}

fn write_lines(runtime: &Handle, outbox: &Outbox, mut output: impl Write) {
    let mut buffer = Vec::new();
    while let Next::Frames(frames) = runtime.block_on(outbox.next()) {
        buffer.clear();
        buffer.shrink_to(LINE_CAPACITY_KEPT);
        for frame in frames {
            buffer.extend_from_slice(frame.as_bytes());
            buffer.push(b'\n');
        }
        if output
            .write_all(&buffer)
            .and_then(|()| output.flush())
            .is_err()
        {
            // Nobody reads any more: the client is gone.
            return outbox.close(Close::Gone);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::read_line;

    fn lines(input: &[u8], line_bytes_max: usize) -> Vec<String> {
        let mut input = std::io::BufReader::with_capacity(3, input);
        let mut lines = Vec::new();
        while let Some(line) = read_line(&mut input, line_bytes_max).unwrap() {
            lines.push(match line {
                Some(line) => String::from_utf8(line).unwrap(),
                None => "(too long)".to_owned(),
            });
        }
        lines
    }

    #[test]
    fn lines_end_in_newlines_of_either_kind_and_the_last_one_may_lack_it() {
        assert_eq!(
            lines(b"one\ntwo\r\n\nthree", 100),
            ["one", "two", "", "three"]
        );
        assert!(lines(b"", 100).is_empty());
    }

    #[test]
    fn a_line_that_is_too_long_is_skipped_and_the_next_one_read() {
        assert_eq!(lines(b"0123456789\nok\n", 5), ["(too long)", "ok"]);
        assert_eq!(lines(b"01234\n012345", 5), ["01234", "(too long)"]);
    }
}
