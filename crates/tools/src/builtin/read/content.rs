//! What the bytes of a file are: text in some encoding, a notebook, an image, or none of these.

use std::borrow::Cow;

use crate::notebook::Notebook;

/// A file as it is read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Content<'a> {
    /// Text, and a note on how it was read if that is worth one.
    Text(Cow<'a, str>, Option<&'static str>),
    /// An image of this media type.
    Image(&'static str),
    /// Nothing to read.
    Binary,
}

/// Bytes at the beginning that are looked at to tell text from other data.
const SNIFFED_BYTES: usize = 8 * 1024;

impl<'a> Content<'a> {
    /// What `bytes` of a file called `name` are.
    pub(super) fn of(name: &str, bytes: &'a [u8]) -> Self {
        if let Some(kind) = image(bytes) {
            return Self::Image(kind);
        }
        let text = match encoding_rs::Encoding::for_bom(bytes) {
            Some((encoding, mark)) if encoding != encoding_rs::UTF_8 => {
                let (text, _) = encoding.decode_without_bom_handling(&bytes[mark..]);
                return Self::Text(text, Some("[read as UTF-16]"));
            }
            Some(_) | None => String::from_utf8_lossy(bytes),
        };
        if bytes[..bytes.len().min(SNIFFED_BYTES)].contains(&0) {
            return Self::Binary;
        }
        if name.ends_with(".ipynb")
            && let Ok(notebook) = Notebook::parse(&text)
        {
            return Self::Text(Cow::Owned(notebook.text()), None);
        }
        let note = matches!(text, Cow::Owned(_))
            .then_some("[not UTF-8: bytes that are no text are shown as \u{fffd}]");
        Self::Text(text, note)
    }
}

/// The media type of an image that clients can show.
fn image(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [
            b'R',
            b'I',
            b'F',
            b'F',
            _,
            _,
            _,
            _,
            b'W',
            b'E',
            b'B',
            b'P',
            ..,
        ] => Some("image/webp"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::Content;

    fn text(bytes: &[u8]) -> (String, bool) {
        match Content::of("a.txt", bytes) {
            Content::Text(text, note) => (text.into_owned(), note.is_some()),
            other @ (Content::Image(_) | Content::Binary) => panic!("{other:?}"),
        }
    }

    #[test]
    fn text_is_read_in_the_encoding_that_it_has() {
        assert_eq!(text("grün".as_bytes()), ("grün".to_owned(), false));
        assert_eq!(text(b"\xff\xfeh\0i\0"), ("hi".to_owned(), true));
        assert_eq!(text(b"\xfe\xff\0h\0i"), ("hi".to_owned(), true));
        assert_eq!(text(b"caf\xe9"), ("caf\u{fffd}".to_owned(), true));
        assert_eq!(text(b""), (String::new(), false));
    }

    #[test]
    fn images_and_other_data_are_known_by_their_bytes_not_by_their_names() {
        let png = b"\x89PNG\r\n\x1a\n\0\0";
        assert_eq!(Content::of("a.txt", png), Content::Image("image/png"));
        assert_eq!(Content::of("a", b"GIF89a"), Content::Image("image/gif"));
        assert_eq!(Content::of("a.png", b"\x7fELF\0"), Content::Binary);
        let webp = b"RIFF\0\0\0\0WEBPVP8 ";
        assert_eq!(Content::of("a", webp), Content::Image("image/webp"));
    }
}
