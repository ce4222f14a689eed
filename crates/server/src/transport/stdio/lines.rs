//! Lines on stdin and stdout.
//!
//! Pipes and sockets are waited for by the runtime and then read or written as far as that goes at
//! once. They are not made non-blocking for it: whoever else has them would find them so. A terminal
//! or a file does not know the question; those have a thread that waits.

use std::fs::File;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read as _, Write as _};
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::io::ReadWriteFlags;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;

/// What the kernel takes for "wherever it is": pipes have no places.
const HERE: u64 = u64::MAX;

/// Bytes read at once.
const READ_BYTES: usize = 16 * 1024;

/// Where lines come from.
#[derive(Debug)]
pub struct LineReader {
    source: Source,
    buffer: Box<[u8]>,
    /// What of it is not cut into lines yet.
    fresh: Range<usize>,
    line: Vec<u8>,
    is_too_long: bool,
    line_bytes_max: usize,
}

#[derive(Debug)]
enum Source {
    Waited(AsyncFd<Arc<OwnedFd>>),
    Thread(mpsc::Receiver<io::Result<Vec<u8>>>),
}

impl LineReader {
    /// This process's input, in lines of at most `line_bytes_max`.
    ///
    /// # Errors
    /// If there is none.
    pub fn stdin(line_bytes_max: usize) -> io::Result<Self> {
        Ok(Self::of(own(io::stdin())?, line_bytes_max))
    }

    fn of(input: OwnedFd, line_bytes_max: usize) -> Self {
        let input = Arc::new(input);
        let waited = waited(&input, Interest::READABLE);
        Self {
            source: waited.map_or_else(|| Source::thread(input), Source::Waited),
            buffer: vec![0; READ_BYTES].into(),
            fresh: 0..0,
            line: Vec::new(),
            is_too_long: false,
            line_bytes_max,
        }
    }

    /// The next line without its end; `Some(None)` for one that is too long, `None` at the end.
    ///
    /// # Errors
    /// If the input cannot be read.
    pub async fn next(&mut self) -> io::Result<Option<Option<Vec<u8>>>> {
        loop {
            if self.fresh.is_empty() {
                self.fill().await?;
            }
            if self.fresh.is_empty() {
                // The end. What stands before it without a newline is a message all the same.
                let is_nothing = self.line.is_empty() && !self.is_too_long;
                return Ok((!is_nothing).then(|| self.finish()));
            }
            if let Some(line) = self.cut() {
                return Ok(Some(line));
            }
        }
    }

    /// Takes what is there up to the end of the line, if that is there.
    fn cut(&mut self) -> Option<Option<Vec<u8>>> {
        let available = &self.buffer[self.fresh.clone()];
        let newline = available.iter().position(|byte| *byte == b'\n');
        let part = &available[..newline.unwrap_or(available.len())];
        if self.line.len() + part.len() > self.line_bytes_max {
            self.is_too_long = true;
            self.line = Vec::new();
        }
        if !self.is_too_long {
            self.line.extend_from_slice(part);
        }
        self.fresh.start += part.len() + usize::from(newline.is_some());
        newline.map(|_| self.finish())
    }

    fn finish(&mut self) -> Option<Vec<u8>> {
        let mut line = std::mem::take(&mut self.line);
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        (!std::mem::take(&mut self.is_too_long)).then_some(line)
    }

    /// Gets something more to cut; at the end there is nothing.
    async fn fill(&mut self) -> io::Result<()> {
        self.fresh = 0..0;
        if let Source::Waited(input) = &self.source {
            match read_when_ready(input, &mut self.buffer).await {
                Err(error) if error.kind() == ErrorKind::Unsupported => {
                    self.source = Source::thread(Arc::clone(input.get_ref()));
                }
                read => {
                    self.fresh = 0..read?;
                    return Ok(());
                }
            }
        }
        if let Source::Thread(chunks) = &mut self.source {
            let chunk = chunks.recv().await.unwrap_or(Ok(Vec::new()))?;
            self.buffer[..chunk.len()].copy_from_slice(&chunk);
            self.fresh = 0..chunk.len();
        }
        Ok(())
    }
}

/// Reads what is there once something is.
async fn read_when_ready(input: &AsyncFd<Arc<OwnedFd>>, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        let mut ready = input.readable().await?;
        let Ok(read) = ready.try_io(|input| read_now(input.get_ref(), buffer)) else {
            continue;
        };
        // Less than there was room for was all; of more the next event tells.
        if read
            .as_ref()
            .is_ok_and(|count| (1..buffer.len()).contains(count))
        {
            ready.clear_ready();
        }
        return read;
    }
}

impl Source {
    fn thread(input: Arc<OwnedFd>) -> Self {
        let (chunks, received) = mpsc::channel(1);
        // It may sit in a read for ever; it ends with the process.
        std::thread::spawn(move || {
            let Ok(mut input) = own(input).map(File::from) else {
                return;
            };
            loop {
                let mut chunk = vec![0; READ_BYTES];
                let read = match input.read(&mut chunk) {
                    Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                    read => read,
                };
                let is_over = !matches!(read, Ok(1..));
                let read = read.map(|count| {
                    chunk.truncate(count);
                    chunk
                });
                if chunks.blocking_send(read).is_err() || is_over {
                    return;
                }
            }
        });
        Self::Thread(received)
    }
}

/// Where lines go.
#[derive(Debug)]
pub struct LineWriter {
    output: Arc<OwnedFd>,
    /// The same, if it can be waited for.
    waited: Option<AsyncFd<Arc<OwnedFd>>>,
}

impl LineWriter {
    /// This process's output.
    ///
    /// # Errors
    /// If there is none.
    pub fn stdout() -> io::Result<Self> {
        Ok(Self::of(own(io::stdout())?))
    }

    fn of(output: OwnedFd) -> Self {
        let output = Arc::new(output);
        let waited = waited(&output, Interest::WRITABLE);
        Self { output, waited }
    }

    /// Writes all of `lines`; gives them back to be used again.
    ///
    /// # Errors
    /// If nobody reads any more.
    pub async fn write_all(&mut self, lines: Vec<u8>) -> io::Result<Vec<u8>> {
        let mut written = 0;
        while let Some(waited) = &self.waited {
            if written == lines.len() {
                return Ok(lines);
            }
            let write = |output: &Arc<OwnedFd>| write_now(output, &lines[written..]);
            match waited.async_io(Interest::WRITABLE, write).await {
                Err(error) if error.kind() == ErrorKind::Unsupported => self.waited = None,
                count => written += count?,
            }
        }
        let mut output = File::from(own(&self.output)?);
        let writing = move || output.write_all(&lines[written..]).map(|()| lines);
        tokio::task::spawn_blocking(writing)
            .await
            .map_err(io::Error::other)?
    }
}

/// Has the runtime wait for a descriptor, if that is of a kind that can be waited for.
fn waited(descriptor: &Arc<OwnedFd>, interest: Interest) -> Option<AsyncFd<Arc<OwnedFd>>> {
    let kept = Arc::clone(descriptor);
    #[expect(
        unsafe_code,
        reason = "the type cannot say that a descriptor stays open"
    )]
    // SAFETY: it is open, since it is owned; what waits for it owns it too, and gives it to nobody.
    let waited = unsafe { AsyncFd::register_with_interest(kept, interest) };
    waited.ok()
}

fn own(descriptor: impl AsFd) -> io::Result<OwnedFd> {
    descriptor.as_fd().try_clone_to_owned()
}

/// Reads what is there, or says that there is nothing.
fn read_now(input: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    let mut buffers = [IoSliceMut::new(buffer)];
    let read = || rustix::io::preadv2(&input, &mut buffers, HERE, ReadWriteFlags::NOWAIT);
    Ok(rustix::io::retry_on_intr(read)?)
}

/// Writes what fits, or says that nothing does.
fn write_now(output: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    let buffers = [IoSlice::new(bytes)];
    let write = || rustix::io::pwritev2(&output, &buffers, HERE, ReadWriteFlags::NOWAIT);
    Ok(rustix::io::retry_on_intr(write)?)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read as _, Seek as _, Write as _};
    use std::os::fd::OwnedFd;

    use super::{LineReader, LineWriter, Source};

    /// What is read of `input` by each of the ways there are.
    async fn lines(input: &[u8], line_bytes_max: usize) -> Vec<String> {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(input).unwrap();
        file.rewind().unwrap();
        let input = input.to_owned();
        let writing = std::thread::spawn(move || writer.write_all(&input).unwrap());
        let piped = LineReader::of(OwnedFd::from(reader), line_bytes_max);
        assert!(matches!(piped.source, Source::Waited(_)));
        let filed = LineReader::of(OwnedFd::from(file), line_bytes_max);
        assert!(matches!(filed.source, Source::Thread(_)));
        let (piped, filed) = (all(piped).await, all(filed).await);
        writing.join().unwrap();
        assert_eq!(piped, filed);
        piped
    }

    async fn all(mut reader: LineReader) -> Vec<String> {
        let mut lines = Vec::new();
        while let Some(line) = reader.next().await.unwrap() {
            lines.push(match line {
                Some(line) => String::from_utf8(line).unwrap(),
                None => "(too long)".to_owned(),
            });
        }
        lines
    }

    #[tokio::test]
    async fn lines_end_in_newlines_of_either_kind_and_the_last_one_may_lack_it() {
        assert_eq!(
            lines(b"one\ntwo\r\n\nthree", 100).await,
            ["one", "two", "", "three"]
        );
        assert!(lines(b"", 100).await.is_empty());
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_skipped_and_the_next_one_read() {
        assert_eq!(lines(b"0123456789\nok\n", 5).await, ["(too long)", "ok"]);
        assert_eq!(lines(b"01234\n012345", 5).await, ["01234", "(too long)"]);
        let long = format!("{}\nok\n", "x".repeat(300_000));
        assert_eq!(lines(long.as_bytes(), 299_999).await, ["(too long)", "ok"]);
        assert_eq!(lines(long.as_bytes(), 300_000).await[0].len(), 300_000);
    }

    #[tokio::test]
    async fn what_does_not_fit_into_a_pipe_is_written_as_it_is_read() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let mut writer = LineWriter::of(OwnedFd::from(writer));
        let text = vec![b'x'; 1_000_000];
        let reading = tokio::task::spawn_blocking(move || {
            let mut read = Vec::new();
            reader.read_to_end(&mut read).map(|_| read)
        });
        let text = writer.write_all(text).await.unwrap();
        assert!(writer.waited.is_some());
        drop(writer);
        assert!(reading.await.unwrap().unwrap() == text);
    }

    #[tokio::test]
    async fn what_cannot_be_waited_for_is_written_all_the_same() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let output = File::options().append(true).open(file.path()).unwrap();
        let mut writer = LineWriter::of(OwnedFd::from(output));
        for line in ["one\n", "two\n"] {
            writer.write_all(line.into()).await.unwrap();
        }
        assert!(writer.waited.is_none());
        assert_eq!(std::fs::read(file.path()).unwrap(), b"one\ntwo\n");
    }

    #[tokio::test]
    async fn nobody_who_reads_is_an_error() {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut writer = LineWriter::of(OwnedFd::from(writer));
        assert!(writer.write_all(b"x\n".to_vec()).await.is_err());
    }
}
