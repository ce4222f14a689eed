//! Where something stands in a line: people count characters from one, servers count units of an
//! encoding from zero.

/// What a server counts in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// Bytes.
    Utf8,
    /// What the protocol began with.
    #[default]
    Utf16,
    /// Characters.
    Utf32,
}

impl Encoding {
    /// By the protocol's name for it; one that we did not offer is none.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "utf-8" => Some(Self::Utf8),
            "utf-16" => Some(Self::Utf16),
            "utf-32" => Some(Self::Utf32),
            _ => None,
        }
    }

    fn units(self, c: char) -> usize {
        match self {
            Self::Utf8 => c.len_utf8(),
            Self::Utf16 => c.len_utf16(),
            Self::Utf32 => 1,
        }
    }

    /// Units before the character `column` of `line`, which counts from one; the end of the line
    /// if it is shorter.
    #[must_use]
    pub fn before(self, line: &str, column: usize) -> usize {
        let before = line.chars().take(column.saturating_sub(1));
        before.map(|c| self.units(c)).sum()
    }

    /// The character, counted from one, that `units` lead to in `line`. Units that end within a
    /// character mean that one; those beyond the line its end.
    #[must_use]
    pub fn column(self, line: &str, units: usize) -> usize {
        let mut passed = 0;
        let passed_by = line.chars().take_while(|c| {
            passed += self.units(*c);
            passed <= units
        });
        passed_by.count() + 1
    }
}

#[cfg(test)]
mod tests {
    use super::Encoding::{Utf8, Utf16, Utf32};

    #[test]
    fn characters_are_counted_as_each_server_counts_them_and_back() {
        let line = "aß😀z";
        for (encoding, expected) in [
            (Utf8, [0, 1, 3, 7, 8]),
            (Utf16, [0, 1, 2, 4, 5]),
            (Utf32, [0, 1, 2, 3, 4]),
        ] {
            for (column, units) in (1..).zip(expected) {
                assert_eq!(encoding.before(line, column), units, "{encoding:?}");
                assert_eq!(encoding.column(line, units), column, "{encoding:?}");
            }
            assert_eq!(encoding.before(line, 99), expected[4], "{encoding:?}");
            assert_eq!(encoding.column(line, 99), 5, "{encoding:?}");
        }
        assert_eq!(Utf16.column(line, 3), 3, "the middle of a character is it");
        assert_eq!(Utf8.before(line, 0), 0);
    }
}
