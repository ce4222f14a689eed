//! Just enough reading of Rust for the rules: which characters are code, and which code is tests.

/// `source` with comments and the insides of literals blanked, line for line.
///
/// A rule that looks for a word then finds it only where the compiler would.
pub(crate) fn code_only(source: &str) -> String {
    let mut code = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let token = token_len(rest, code.chars().next_back());
        match token {
            Some(len) => blank(&rest[..len], &mut code),
            None => code.push(first),
        }
        rest = &rest[token.unwrap_or(first.len_utf8())..];
    }
    code
}

/// `code` without its inline test modules, which run to the end of the file by our custom.
pub(crate) fn before_inline_tests(code: &str) -> &str {
    let is_inline = |at: usize| {
        let after = code[at..].lines().skip(1);
        let mut after = after.skip_while(|line| line.trim_start().starts_with("#["));
        after
            .next()
            .is_some_and(|line| line.starts_with("mod ") && line.ends_with('{'))
    };
    let starts = code.match_indices("#[cfg(test)]");
    let first = starts.map(|(at, _)| at).find(|at| is_inline(*at));
    &code[..first.unwrap_or(code.len())]
}

/// Whether the whole file is tests, or helps them.
pub(crate) fn is_test_file(path: &str) -> bool {
    path.contains("/tests/")
        || path.ends_with("/tests.rs")
        || path.starts_with("crates/testkit/")
        || path.starts_with("fuzz/")
}

/// The length of the comment or literal at the start of `rest`, if there is one.
fn token_len(rest: &str, before: Option<char>) -> Option<usize> {
    let in_word = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return Some(block_comment_len(rest));
    }
    if let Some(inside) = rest.strip_prefix('"') {
        return Some(1 + quoted_len(inside, '"'));
    }
    if rest.starts_with('\'') {
        return char_literal_len(rest);
    }
    let raw = rest.strip_prefix('b').unwrap_or(rest).strip_prefix('r')?;
    let hashes = raw.len() - raw.trim_start_matches('#').len();
    if in_word || !raw[hashes..].starts_with('"') {
        return None;
    }
    let end = format!("\"{}", "#".repeat(hashes));
    let opened = rest.len() - raw.len() + hashes + 1;
    let inside = rest[opened..].find(&end);
    Some(inside.map_or(rest.len(), |len| opened + len + end.len()))
}

fn block_comment_len(rest: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < rest.len() {
        let here = &rest.as_bytes()[at..];
        if here.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if here.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                break;
            }
        } else {
            at += 1;
        }
    }
    at
}

/// Length up to and with the closing `quote`, minding escapes.
fn quoted_len(inside: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in inside.char_indices() {
        if c == quote && !escaped {
            return at + c.len_utf8();
        }
        escaped = c == '\\' && !escaped;
    }
    inside.len()
}

/// A character literal's length; `None` for a lifetime.
fn char_literal_len(rest: &str) -> Option<usize> {
    let mut inside = rest[1..].chars();
    let first = inside.next()?;
    if first == '\\' {
        return Some(1 + quoted_len(&rest[1..], '\''));
    }
    (inside.next() == Some('\'')).then(|| 2 + first.len_utf8())
}

/// Keeps line breaks, so that places stay where they were, and marks that something stood here.
fn blank(token: &str, code: &mut String) {
    code.extend(token.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
}
