//! The floor: a client that asks the model server itself, with nothing between.
//!
//! It does what nobody can leave out: sends the request, reads the answer and makes values of its
//! events, over one connection that stays.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use super::model::MockModel;
use crate::Failure;
use crate::bench::because;

/// Longest wait for a piece of an answer.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// One kept connection to a model server.
#[derive(Debug)]
pub(super) struct Floor {
    head: String,
    writer: TcpStream,
    reader: BufReader<TcpStream>,
}

impl Floor {
    pub(super) fn connect(model: &MockModel) -> Result<Self, Failure> {
        let writer = TcpStream::connect(model.address).map_err(because("cannot connect"))?;
        let set_up = writer
            .set_nodelay(true)
            .and_then(|()| writer.set_read_timeout(Some(SILENCE_MAX)));
        set_up.map_err(because("cannot set up the socket"))?;
        let reader = writer.try_clone();
        let reader = reader.map_err(because("cannot set up the socket"))?;
        Ok(Self {
            head: format!(
                "POST {} HTTP/1.1\r\nhost: {}\r\naccept: text/event-stream\r\n\
                 content-type: application/json\r\nauthorization: Bearer none\r\n",
                model.format.path(),
                model.address
            ),
            writer,
            reader: BufReader::with_capacity(64 * 1024, reader),
        })
    }

    /// Sends `body` and reads the whole answer; gives how many events it had.
    pub(super) fn ask(&mut self, body: &[u8]) -> Result<usize, Failure> {
        let asked = self.send(body).and_then(|()| self.answer());
        let answer = asked.map_err(because("the model server broke off"))?;
        let events = answer
            .split(|byte| *byte == b'\n')
            .filter_map(|line| line.strip_prefix(b"data: "));
        let mut count = 0;
        for event in events.filter(|event| event.first() == Some(&b'{')) {
            let event: Value = serde_json::from_slice(event).map_err(because("not JSON"))?;
            drop(event);
            count += 1;
        }
        Ok(count)
    }

    fn send(&mut self, body: &[u8]) -> std::io::Result<()> {
        let mut request = Vec::with_capacity(self.head.len() + body.len() + 32);
        write!(
            request,
            "{}content-length: {}\r\n\r\n",
            self.head,
            body.len()
        )?;
        request.extend_from_slice(body);
        self.writer.write_all(&request)
    }

    /// The answer's body.
    fn answer(&mut self) -> std::io::Result<Vec<u8>> {
        let mut line = String::new();
        while self.line(&mut line)? > 2 {}
        let mut body = Vec::new();
        loop {
            self.line(&mut line)?;
            let size = u64::from_str_radix(line.trim(), 16).map_err(std::io::Error::other)?;
            (&mut self.reader).take(size).read_to_end(&mut body)?;
            self.line(&mut line)?;
            if size == 0 {
                return Ok(body);
            }
        }
    }

    fn line(&mut self, line: &mut String) -> std::io::Result<usize> {
        line.clear();
        match self.reader.read_line(line)? {
            0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
            bytes => Ok(bytes),
        }
    }
}
