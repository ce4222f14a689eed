//! What a rule says of files: a pattern over where a path really leads.

use std::path::Path;

use tools::touched::{Real, Touched};

/// A pattern for files: `*` and `?` within a name, `**` for any directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PathPattern {
    parts: Vec<String>,
    is_absolute: bool,
    /// Whether all beneath what it names is meant too.
    is_tree: bool,
}

/// How names are compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Case {
    Exact,
    /// A disk may take two spellings for one name; whoever forbids one means both.
    Any,
}

impl PathPattern {
    /// Reads a pattern. Without a slash it is about names in any directory.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        if text.starts_with('~') {
            return Err("`~` is not known to rules; write the directory out");
        }
        if text.contains('{') && text.contains(',') {
            return Err("braces are not known to rules; write one rule for each");
        }
        let is_absolute = text.starts_with('/');
        let body = text.strip_suffix('/').unwrap_or(text);
        let mut parts: Vec<String> = Vec::new();
        if !body.contains('/') {
            parts.push("**".to_owned());
        }
        for part in body.split('/') {
            match part {
                "" | "." => {}
                ".." => return Err("`..` has no place in a rule, for paths are judged without it"),
                part => parts.push(part.to_owned()),
            }
        }
        let last = parts.last().map(String::as_str);
        let has_name = last.is_some_and(|last| last != "**") || body.contains('/');
        if !has_name && body != "**" {
            return Err("it names no file");
        }
        let is_tree = text.ends_with('/') || last.is_some_and(|last| !last.contains(['*', '?']));
        Ok(Self {
            parts,
            is_absolute,
            is_tree,
        })
    }

    /// Whether one of its names is exactly `part`.
    pub(super) fn writes_out(&self, part: &str) -> bool {
        self.parts.iter().any(|own| own == part)
    }

    /// Whether a rule with it allows a call that touches this.
    pub(super) fn covers(&self, touched: &Touched) -> bool {
        let real = touched.real.as_ref();
        real.is_some_and(|real| self.is(real, Case::Exact))
    }

    /// Whether a call that touches this may be what it is about.
    pub(super) fn may_be(&self, touched: &Touched) -> bool {
        let mut places = touched.real.iter().chain([&touched.spelled]);
        places.any(|place| self.is(place, Case::Any))
    }

    /// Whether a search that begins here may come to something that it is about.
    pub(super) fn may_be_within(&self, touched: &Touched) -> bool {
        let mut places = touched.real.iter().chain([&touched.spelled]);
        self.may_be(touched) || places.any(|place| self.is_within(place))
    }

    fn is(&self, place: &Real, case: Case) -> bool {
        self.names(place).is_some_and(|names| {
            let fold = |text: &str| match case {
                Case::Exact => text.to_owned(),
                Case::Any => text.to_lowercase(),
            };
            let parts: Vec<String> = self.parts.iter().map(|part| fold(part)).collect();
            let names: Vec<String> = names.iter().map(|name| fold(name)).collect();
            are_like(&parts, &names, self.is_tree)
        })
    }

    fn is_within(&self, place: &Real) -> bool {
        let Some(names) = self.names(place) else {
            return false;
        };
        let is_fixed = |part: &&String| !part.contains(['*', '?']);
        let mut fixed = self.parts.iter().take_while(is_fixed);
        names.iter().all(|name| match fixed.next() {
            Some(part) => part.to_lowercase() == name.to_lowercase(),
            // From here on it may be about anything.
            None => true,
        })
    }

    /// The names that the pattern is compared with.
    fn names<'a>(&self, place: &'a Real) -> Option<Vec<&'a str>> {
        let path = match self.is_absolute {
            true => Some(place.absolute.as_path()),
            false => place.beneath.as_deref(),
        };
        names(path?)
    }
}

/// The parts of a path, if they are all text.
fn names(path: &Path) -> Option<Vec<&str>> {
    let parts = path.components().filter_map(|part| match part {
        std::path::Component::Normal(name) => Some(name.to_str()),
        std::path::Component::ParentDir => Some(None),
        std::path::Component::RootDir
        | std::path::Component::CurDir
        | std::path::Component::Prefix(_) => None,
    });
    parts.collect()
}

/// Whether `names` are like `parts`, of which `**` stands for any number. Never goes back further
/// than to the last `**`.
fn are_like(parts: &[String], names: &[String], is_tree: bool) -> bool {
    let (mut part, mut name) = (0, 0);
    let mut again: Option<(usize, usize)> = None;
    loop {
        let is_over = part == parts.len();
        if is_over && (name == names.len() || is_tree && name > 0) {
            return true;
        }
        let fits = match parts.get(part).map(String::as_str) {
            Some("**") => {
                again = Some((part + 1, name));
                part += 1;
                // At the end it stands for something, not for nothing.
                if part == parts.len() {
                    return name < names.len();
                }
                continue;
            }
            Some(pattern) => names.get(name).is_some_and(|name| is_name(name, pattern)),
            None => false,
        };
        match (fits, again) {
            (true, _) => {
                part += 1;
                name += 1;
            }
            (false, Some((to, from))) if from < names.len() => {
                again = Some((to, from + 1));
                (part, name) = (to, from + 1);
            }
            (false, _) => return false,
        }
    }
}

/// Whether a name is like a pattern of `*` and `?`.
fn is_name(name: &str, pattern: &str) -> bool {
    let (name, pattern): (Vec<char>, Vec<char>) =
        (name.chars().collect(), pattern.chars().collect());
    let (mut at, mut to) = (0, 0);
    let mut again: Option<(usize, usize)> = None;
    while at < name.len() {
        match pattern.get(to) {
            Some('*') => {
                again = Some((to + 1, at));
                to += 1;
            }
            Some(c) if *c == '?' || *c == name[at] => {
                to += 1;
                at += 1;
            }
            Some(_) | None => match again {
                Some((star, from)) => {
                    again = Some((star, from + 1));
                    (to, at) = (star, from + 1);
                }
                None => return false,
            },
        }
    }
    pattern[to..].iter().all(|c| *c == '*')
}
