//! What a person presses, read from the bytes that a terminal sends. Pure: bytes in, keys out.

/// Most bytes of one paste; more is a file, which the agent can read itself.
pub(super) const PASTE_BYTES_MAX: usize = 1024 * 1024;

/// Longest escape sequence that is waited for; none that we know is half as long.
const SEQUENCE_BYTES_MAX: usize = 32;

const PASTE_START: &[u8] = b"\x1b[200~";
const PASTE_END: &[u8] = b"\x1b[201~";

/// One key, or a paste.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    /// Text that was pasted, with `\n` between its lines.
    Paste(String),
    /// More was pasted than is taken.
    PasteTooLong,
    Enter,
    /// A line break in the text: Alt-Enter, Shift-Enter or Ctrl-J.
    NewLine,
    Tab,
    BackTab,
    Escape,
    Backspace,
    Delete,
    DeleteWord,
    DeleteToStart,
    DeleteToEnd,
    Left,
    Right,
    WordLeft,
    WordRight,
    Up,
    Down,
    Home,
    End,
    /// Any other with Ctrl, as its letter.
    Ctrl(char),
}

/// Reads keys; keeps what is not whole yet.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    bytes: Vec<u8>,
    /// What was pasted so far; `Err` once it is too much.
    paste: Option<Result<Vec<u8>, ()>>,
    /// Whether the rest of a control sequence that is too long is being left out.
    is_skipping: bool,
}

impl Decoder {
    /// Takes bytes; gives the keys that are whole now.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Vec<Key> {
        self.bytes.extend_from_slice(bytes);
        let mut keys = Vec::new();
        while let Some((key, used)) = self.next() {
            self.bytes.drain(..used);
            keys.extend(key);
        }
        keys
    }

    /// Whether something began that more bytes would complete, or time: an Escape alone.
    pub(super) fn is_waiting(&self) -> bool {
        !self.bytes.is_empty() && self.paste.is_none()
    }

    /// Nothing more came: what is there is all there is.
    pub(super) fn give_up(&mut self) -> Vec<Key> {
        let is_escape = self.bytes == [0x1b];
        self.bytes.clear();
        self.is_skipping = false;
        Vec::from_iter(is_escape.then_some(Key::Escape))
    }

    /// The next key, if any comes of it, and the bytes that it took.
    fn next(&mut self) -> Option<(Option<Key>, usize)> {
        if self.paste.is_some() {
            return self.pasted();
        }
        let first = *self.bytes.first()?;
        if self.is_skipping {
            let used = usize::from(is_parameter(first) || is_final(first));
            self.is_skipping = is_parameter(first);
            return Some((None, used));
        }
        if first != 0x1b {
            return character(&self.bytes);
        }
        if self.bytes.starts_with(PASTE_START) {
            self.paste = Some(Ok(Vec::new()));
            return Some((None, PASTE_START.len()));
        }
        match self.bytes.get(1)? {
            b'[' => self.sequence(2),
            b'O' => {
                let key = self.bytes.get(2).and_then(|last| cursor_key(*last, ""));
                self.bytes.get(2).map(|_| (key, 3))
            }
            // Twice in a row is once, and the second may begin something.
            0x1b => Some((Some(Key::Escape), 1)),
            _ => {
                let (key, used) = character(&self.bytes[1..])?;
                Some((key.and_then(|key| with_alt(&key)), used + 1))
            }
        }
    }

    /// A control sequence whose parameters begin at `from`.
    fn sequence(&mut self, from: usize) -> Option<(Option<Key>, usize)> {
        let rest = self.bytes.get(from..)?;
        let end = rest.iter().take_while(|byte| is_parameter(**byte)).count();
        if end > SEQUENCE_BYTES_MAX {
            self.is_skipping = true;
            return Some((None, from + SEQUENCE_BYTES_MAX));
        }
        // What is not part of a sequence breaks it off, and means what it means.
        if !is_final(*rest.get(end)?) {
            return Some((None, from + end));
        }
        let parameters = std::str::from_utf8(&rest[..end]).unwrap_or_default();
        let key = match rest[end] {
            b'~' => tilde_key(parameters),
            b'Z' => Some(Key::BackTab),
            b'u' => unicode_key(parameters),
            last => cursor_key(last, parameters),
        };
        Some((key, from + end + 1))
    }

    fn pasted(&mut self) -> Option<(Option<Key>, usize)> {
        let end = find(&self.bytes, PASTE_END);
        // What may be the beginning of the end is kept.
        let kept = PASTE_END.len() - 1;
        let taken = end.unwrap_or(self.bytes.len().saturating_sub(kept));
        if let Some(Ok(paste)) = &mut self.paste {
            paste.extend_from_slice(&self.bytes[..taken]);
            if paste.len() > PASTE_BYTES_MAX {
                self.paste = Some(Err(()));
            }
        }
        if end.is_none() {
            return (taken > 0).then_some((None, taken));
        }
        let key = match self.paste.take()? {
            Ok(bytes) => {
                let text = String::from_utf8_lossy(&bytes);
                Key::Paste(text.replace("\r\n", "\n").replace('\r', "\n"))
            }
            Err(()) => Key::PasteTooLong,
        };
        Some((Some(key), taken + PASTE_END.len()))
    }
}

/// Whether a control sequence goes on with it.
fn is_parameter(byte: u8) -> bool {
    (0x20..=0x3f).contains(&byte)
}

/// Whether a control sequence ends with it.
fn is_final(byte: u8) -> bool {
    (0x40..=0x7e).contains(&byte)
}

/// A character, or a key that sends one byte.
fn character(bytes: &[u8]) -> Option<(Option<Key>, usize)> {
    let first = *bytes.first()?;
    if first < 0x20 || first == 0x7f {
        return Some((Some(control(first)), 1));
    }
    let length = match first {
        0x00..=0x7f => 1,
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        // Not the beginning of a character.
        _ => return Some((None, 1)),
    };
    match std::str::from_utf8(&bytes[..length.min(bytes.len())]) {
        Ok(text) => Some((text.chars().next().map(Key::Char), length)),
        // So far it is right, and not whole.
        Err(error) if error.error_len().is_none() => None,
        Err(_) => Some((None, 1)),
    }
}

fn control(byte: u8) -> Key {
    match byte {
        0x01 => Key::Home,
        0x02 => Key::Left,
        0x05 => Key::End,
        0x06 => Key::Right,
        0x08 | 0x7f => Key::Backspace,
        b'\t' => Key::Tab,
        b'\n' => Key::NewLine,
        0x0b => Key::DeleteToEnd,
        b'\r' => Key::Enter,
        0x0e => Key::Down,
        0x10 => Key::Up,
        0x15 => Key::DeleteToStart,
        0x17 => Key::DeleteWord,
        _ => Key::Ctrl(char::from(byte | 0x60)),
    }
}

fn with_alt(key: &Key) -> Option<Key> {
    let known = [
        (Key::Enter, Key::NewLine),
        (Key::NewLine, Key::NewLine),
        (Key::Backspace, Key::DeleteWord),
        (Key::Char('b'), Key::WordLeft),
        (Key::Char('f'), Key::WordRight),
    ];
    let found = known.into_iter().find(|(bare, _)| bare == key);
    found.map(|(_, meant)| meant)
}

/// Keys whose sequence ends with a letter; `1;5` before it means Ctrl, `1;3` Alt.
fn cursor_key(last: u8, parameters: &str) -> Option<Key> {
    let is_word = matches!(parameters, "1;5" | "1;3" | "5" | "3");
    Some(match (last, is_word) {
        (b'A', _) => Key::Up,
        (b'B', _) => Key::Down,
        (b'C', false) => Key::Right,
        (b'C', true) => Key::WordRight,
        (b'D', false) => Key::Left,
        (b'D', true) => Key::WordLeft,
        (b'F', _) => Key::End,
        (b'H', _) => Key::Home,
        (b'M', _) => Key::Enter,
        _ => return None,
    })
}

fn tilde_key(parameters: &str) -> Option<Key> {
    match parameters {
        "1" | "7" => Some(Key::Home),
        "3" => Some(Key::Delete),
        "4" | "8" => Some(Key::End),
        "27;2;13" | "27;3;13" | "27;5;13" => Some(Key::NewLine),
        _ => None,
    }
}

/// Terminals that name keys by their code points: `13;2u` is Shift-Enter.
fn unicode_key(parameters: &str) -> Option<Key> {
    let (code, modifiers) = parameters.split_once(';').unwrap_or((parameters, "1"));
    match (code, modifiers) {
        ("13", "1") => Some(Key::Enter),
        ("13", _) => Some(Key::NewLine),
        ("27", _) => Some(Key::Escape),
        ("9", "1") => Some(Key::Tab),
        ("9", _) => Some(Key::BackTab),
        ("127", _) => Some(Key::Backspace),
        (code, "5") => {
            let letter = code.parse().ok().and_then(char::from_u32)?;
            letter.is_ascii_lowercase().then_some(Key::Ctrl(letter))
        }
        _ => None,
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|at| at == wanted)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{ProptestConfig, Strategy, prop, prop_oneof};
    use proptest::{prop_assert, prop_assert_eq, proptest};

    use super::{Decoder, Key, PASTE_BYTES_MAX, SEQUENCE_BYTES_MAX};

    fn keys(bytes: &[u8]) -> Vec<Key> {
        let whole = Decoder::default().feed(bytes);
        let mut decoder = Decoder::default();
        let single: Vec<Key> = bytes
            .iter()
            .flat_map(|byte| decoder.feed(&[*byte]))
            .collect();
        assert_eq!(whole, single, "how the bytes are cut does not matter");
        whole
    }

    #[test]
    fn keys_are_read_however_their_bytes_are_cut() {
        assert_eq!(
            keys("aé日\r".as_bytes()),
            [Key::Char('a'), Key::Char('é'), Key::Char('日'), Key::Enter]
        );
        assert_eq!(
            keys(b"\x1b[A\x1bOB\x1b[1;5C\x1b[3~\x1b\r\x1b[13;2u\x03"),
            [
                Key::Up,
                Key::Down,
                Key::WordRight,
                Key::Delete,
                Key::NewLine,
                Key::NewLine,
                Key::Ctrl('c')
            ]
        );
    }

    #[test]
    fn a_paste_is_one_key_whatever_is_in_it() {
        assert_eq!(
            keys(b"\x1b[200~y\r\nn\x03\x1b[31m\x1b[201~z"),
            [Key::Paste("y\nn\u{3}\u{1b}[31m".to_owned()), Key::Char('z')]
        );
    }

    #[test]
    fn a_paste_that_is_too_long_is_refused_and_not_cut() {
        let mut decoder = Decoder::default();
        decoder.feed(b"\x1b[200~");
        for _ in 0..=PASTE_BYTES_MAX / 1024 {
            assert_eq!(decoder.feed(&[b'x'; 1024]), []);
        }
        let end = decoder.feed(b"\x1b[201~a");
        assert_eq!(end, [Key::PasteTooLong, Key::Char('a')]);
    }

    #[test]
    fn an_escape_alone_is_one_when_nothing_follows() {
        let mut decoder = Decoder::default();
        assert_eq!(decoder.feed(b"\x1b"), []);
        assert!(decoder.is_waiting());
        assert_eq!(decoder.give_up(), [Key::Escape]);
        assert!(!decoder.is_waiting());
    }

    #[test]
    fn what_is_not_understood_is_skipped() {
        assert_eq!(
            keys(b"\xff\x1b[?1;2c\x1b[I\xc3(a"),
            [Key::Char('('), Key::Char('a')]
        );
    }

    #[test]
    fn a_sequence_that_is_too_long_is_skipped_whole() {
        let long = [b"\x1b[".as_slice(), &[b'1'; 100], b"Aa"].concat();
        assert_eq!(keys(&long), [Key::Char('a')]);
    }

    #[test]
    fn a_sequence_ends_where_no_sequence_goes_on() {
        assert_eq!(keys(b"\x1b[\rx"), [Key::Enter, Key::Char('x')]);
        assert_eq!(keys(b"\x1b[1\x1b[A"), [Key::Up]);
        assert_eq!(keys("\x1b[1é".as_bytes()), [Key::Char('é')]);
    }

    #[test]
    fn broken_text_does_not_hold_back_what_follows() {
        assert_eq!(keys(b"\xf0ab"), [Key::Char('a'), Key::Char('b')]);
        assert_eq!(keys(b"\xe2\x82\r"), [Key::Enter]);
    }

    /// Bytes of which many begin or end something.
    fn typed() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            prop::sample::select(vec![
                "\x1b",
                "[",
                "O",
                "A",
                "~",
                "1;5",
                "13;2u",
                "\x1b[200~",
                "\x1b[201~",
                "\r",
                "é",
                "日",
                "👍",
            ])
            .prop_map(|text| text.as_bytes().to_vec()),
            prop::collection::vec(prop::num::u8::ANY, 1..4),
            prop::collection::vec(prop::sample::select(b"0123456789;?< ".to_vec()), 1..50),
        ];
        prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_bytes_are_read_however_they_are_cut(bytes in typed(), size in 1_usize..9) {
            let whole = Decoder::default().feed(&bytes);
            let mut decoder = Decoder::default();
            let mut cut = Vec::new();
            for chunk in bytes.chunks(size) {
                cut.extend(decoder.feed(chunk));
                prop_assert!(decoder.bytes.len() <= 2 + SEQUENCE_BYTES_MAX);
            }
            prop_assert_eq!(whole, cut);
        }
    }
}
