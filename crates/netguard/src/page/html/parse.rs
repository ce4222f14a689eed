//! From HTML to a [`Tree`]: the tokenizer follows the standard; the tree is built as browsers do
//! for what people write, and in linear time for what they do not.

use html5gum::emitters::callback::{CallbackEmitter, CallbackEvent};
use html5gum::{Span, Tokenizer};

use super::tree::{ATTRIBUTES, DEPTH_MAX, NodeId, Tag, Tree};

/// Longest attribute that is kept; longer ones are data, not addresses or names.
const ATTRIBUTE_BYTES_MAX: usize = 4096;

/// Longest title that is kept.
const TITLE_BYTES_MAX: usize = 1000;

/// A parsed page.
#[derive(Debug, Default)]
pub(super) struct Parsed {
    pub(super) tree: Tree,
    pub(super) title: String,
    /// What `<base href>` says.
    pub(super) base: Option<String>,
    /// Whether there was more than is kept.
    pub(super) is_cut: bool,
}

/// Parses a page. What scripts, styles and hidden elements contain is not in the tree.
pub(super) fn parse(html: &str) -> Parsed {
    let mut builder = Builder::default();
    let handler = |event: CallbackEvent<'_>, _: Span<()>| builder.handle(event);
    let mut emitter = CallbackEmitter::new(handler);
    emitter.naively_switch_states(true);
    let mut tokenizer = Tokenizer::new_with_emitter(html, emitter);
    // The only thing that the builder ever reports is that it is full.
    let is_cut = tokenizer.next().is_some();
    drop(tokenizer);
    let mut parsed = builder.parsed;
    parsed.is_cut = is_cut;
    let title: Vec<&str> = parsed.title.split_whitespace().collect();
    parsed.title = title.join(" ");
    parsed
}

/// There is no room for more.
struct Full;

struct Builder {
    parsed: Parsed,
    /// Open elements with where their content goes; nowhere, if it is not shown.
    open: Vec<(Tag, Option<NodeId>)>,
    /// How many of each are open, so that most searches need not be made.
    counts: [u16; Tag::COUNT],
    starting: Starting,
}

/// A start tag whose attributes are still coming.
#[derive(Default)]
struct Starting {
    name: String,
    attribute: Option<&'static str>,
    attributes: Vec<(&'static str, String)>,
    is_hidden: bool,
    /// What `property`, `name` and `content` of a `<meta>` say.
    meta: [String; 2],
}

/// Attributes that decide whether something is seen, or that only `<meta>` has.
const PASSING: &[&str] = &[
    "aria-hidden",
    "content",
    "hidden",
    "name",
    "open",
    "property",
    "style",
];

impl Default for Builder {
    fn default() -> Self {
        Self {
            parsed: Parsed::default(),
            open: Vec::new(),
            counts: [0; Tag::COUNT],
            starting: Starting::default(),
        }
    }
}

impl Builder {
    fn handle(&mut self, event: CallbackEvent<'_>) -> Option<Full> {
        match event {
            CallbackEvent::OpenStartTag { name } => {
                self.starting = Starting {
                    name: String::from_utf8_lossy(name).into_owned(),
                    ..Starting::default()
                };
            }
            CallbackEvent::AttributeName { name } => self.starting.name_attribute(name),
            CallbackEvent::AttributeValue { value } => self.starting.give_value(value),
            CallbackEvent::CloseStartTag { self_closing } => self.start(self_closing),
            CallbackEvent::EndTag { name } => self.end(&String::from_utf8_lossy(name)),
            CallbackEvent::String { value } => self.text(&String::from_utf8_lossy(value)),
            CallbackEvent::Comment { .. }
            | CallbackEvent::Doctype { .. }
            | CallbackEvent::Error(_) => {}
        }
        self.parsed.tree.is_full().then_some(Full)
    }

    /// Where new content goes, if it is shown.
    fn place(&self) -> Option<NodeId> {
        self.open
            .last()
            .map_or(Some(Tree::ROOT), |(_, place)| *place)
    }

    fn text(&mut self, text: &str) {
        if self
            .open
            .last()
            .is_some_and(|(tag, _)| tag.name() == "title")
        {
            // A drawing has titles too, inside of what is not shown.
            let is_first = self.parsed.title.is_empty() && !self.is_in("svg");
            if is_first && text.len() <= TITLE_BYTES_MAX {
                self.parsed.title.push_str(text);
            }
        } else if let Some(place) = self.place() {
            self.parsed.tree.add_text(place, text);
        }
    }

    fn start(&mut self, self_closing: bool) {
        let starting = std::mem::take(&mut self.starting);
        let tag = Tag::of(&starting.name);
        match tag.name() {
            "html" | "head" | "body" => return,
            "base" => {
                self.parsed.base = self.parsed.base.take().or_else(|| starting.href());
                return;
            }
            "meta" => {
                self.read_meta(&starting.meta);
                return;
            }
            _ => {}
        }
        self.close_before(tag);
        let is_void = is_void(tag.name()) || (self_closing && self.is_in("svg"));
        if self.open.len() >= DEPTH_MAX && !is_void {
            return;
        }
        let is_seen = !starting.is_hidden && !is_unseen(tag.name());
        let place = self.place().filter(|_| is_seen || starting.is_checkbox());
        let place = place.map(|parent| {
            let tree = &mut self.parsed.tree;
            tree.add_element(parent, tag, starting.attributes)
        });
        if !is_void {
            self.open.push((tag, place));
            self.count(tag, 1);
        }
    }

    fn read_meta(&mut self, [key, content]: &[String; 2]) {
        if key == "og:title" && self.parsed.title.is_empty() && content.len() <= TITLE_BYTES_MAX {
            self.parsed.title.clone_from(content);
        }
    }

    fn end(&mut self, name: &str) {
        let tag = Tag::of(name);
        if tag.name() == "br" {
            if let Some(place) = self.place() {
                self.parsed.tree.add_element(place, tag, Vec::new());
            }
            return;
        }
        if tag == Tag::OTHER {
            // Any two of these are the same here; closing the nearest is what mostly is right.
            if self
                .open
                .last()
                .is_some_and(|(open, _)| *open == Tag::OTHER)
            {
                self.pop();
            }
            return;
        }
        let walls = if is_table_part(name) {
            &["table"][..]
        } else {
            CELLS
        };
        self.close(&[name], walls);
    }

    /// Closes what a start tag ends without saying so.
    fn close_before(&mut self, tag: Tag) {
        let name = tag.name();
        match name {
            "li" => self.close(&["li"], &["ul", "ol", "menu", "td", "th"]),
            "dt" | "dd" => self.close(&["dt", "dd"], &["dl", "td", "th"]),
            "td" | "th" => self.close(&["td", "th"], &["tr", "table"]),
            "tr" => self.close(&["tr"], &["table", "tbody", "thead", "tfoot"]),
            "tbody" | "thead" | "tfoot" | "caption" => {
                self.close(&["tbody", "thead", "tfoot", "caption"], &["table"]);
            }
            "option" => self.close(&["option"], &["select"]),
            "a" => self.close(&["a"], CELLS),
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                let is_heading = |(open, _): &(Tag, _)| is_heading(open.name());
                if self.open.last().is_some_and(is_heading) {
                    self.pop();
                }
            }
            _ => {}
        }
        if super::tree::is_block(name) && !is_table_part(name) {
            self.close(&["p"], P_WALLS);
        }
    }

    /// Closes the nearest of `names` with all inside it, if it is open this side of all `walls`.
    fn close(&mut self, names: &[&str], walls: &[&str]) {
        let is_open = |name: &&str| self.counts[Tag::of(name).index()] > 0;
        if !names.iter().any(is_open) {
            return;
        }
        for at in (0..self.open.len()).rev() {
            let name = self.open[at].0.name();
            if names.contains(&name) {
                while self.open.len() > at {
                    self.pop();
                }
                return;
            }
            if walls.contains(&name) {
                return;
            }
        }
    }

    fn pop(&mut self) {
        if let Some((tag, _)) = self.open.pop() {
            self.count(tag, -1);
        }
    }

    fn count(&mut self, tag: Tag, by: i16) {
        if let Some(count) = self.counts.get_mut(tag.index()) {
            *count = count.saturating_add_signed(by);
        }
    }

    fn is_in(&self, name: &str) -> bool {
        self.counts[Tag::of(name).index()] > 0
    }
}

impl Starting {
    fn name_attribute(&mut self, name: &[u8]) {
        let name = std::str::from_utf8(name).unwrap_or_default();
        let mut known = ATTRIBUTES.iter().chain(PASSING);
        self.attribute = known.find(|known| **known == name).copied();
        match self.attribute {
            Some("hidden") => self.is_hidden = true,
            Some("open") if self.name == "dialog" => self.is_hidden = false,
            Some("checked") => self.attributes.push(("checked", String::new())),
            _ => {}
        }
    }

    fn give_value(&mut self, value: &[u8]) {
        let Some(name) = self.attribute.take() else {
            return;
        };
        let value = String::from_utf8_lossy(value);
        match name {
            "aria-hidden" => self.is_hidden |= value.trim().eq_ignore_ascii_case("true"),
            "style" => self.is_hidden |= is_hiding(&value),
            // Found only by searching: what a page hides from people it may show to a model.
            "hidden" if value.eq_ignore_ascii_case("until-found") => self.is_hidden = false,
            "property" | "name" => self.meta[0] = value.to_ascii_lowercase(),
            "content" => self.meta[1] = value.into_owned(),
            "hidden" | "open" | "checked" => {}
            _ => {
                // The first of two counts.
                let is_first = self.value(name).is_none();
                if is_first && value.len() <= ATTRIBUTE_BYTES_MAX {
                    self.attributes.push((name, value.into_owned()));
                }
            }
        }
    }

    fn value(&self, name: &str) -> Option<&String> {
        let found = self.attributes.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value)
    }

    fn href(&self) -> Option<String> {
        self.value("href").cloned()
    }

    fn is_checkbox(&self) -> bool {
        let is_box = self.value("type").is_some_and(|kind| kind == "checkbox");
        self.name == "input" && is_box && !self.is_hidden
    }
}

/// Whether a style attribute takes an element out of sight.
fn is_hiding(style: &str) -> bool {
    let style: String = style.chars().filter(|c| !c.is_whitespace()).collect();
    let style = style.to_ascii_lowercase();
    style.split(';').any(|rule| {
        let rule = rule.trim_end_matches("!important");
        let zero = |value: &str| value.trim_end_matches(|c: char| !c.is_ascii_digit()) == "0";
        match rule.split_once(':') {
            Some(("display", "none")) | Some(("visibility", "hidden" | "collapse")) => true,
            Some(("opacity" | "font-size", value)) => zero(value) || value == "0.0",
            Some(("left" | "top" | "text-indent", value)) => {
                // Moved out of the window.
                value.starts_with('-') && value.bytes().filter(u8::is_ascii_digit).count() >= 4
            }
            _ => false,
        }
    })
}

const CELLS: &[&str] = &["td", "th", "table", "caption"];

const P_WALLS: &[&str] = &["td", "th", "table", "caption", "button"];

fn is_heading(name: &str) -> bool {
    matches!(name, "h1" | "h2" | "h3" | "h4" | "h5" | "h6")
}

fn is_table_part(name: &str) -> bool {
    matches!(
        name,
        "caption" | "table" | "tbody" | "td" | "tfoot" | "th" | "thead" | "tr"
    )
}

fn is_void(name: &str) -> bool {
    matches!(
        name,
        "base"
            | "br"
            | "col"
            | "embed"
            | "frame"
            | "hr"
            | "img"
            | "input"
            | "link"
            | "meta"
            | "param"
            | "source"
            | "track"
            | "wbr"
    )
}

/// Elements whose content is never prose.
fn is_unseen(name: &str) -> bool {
    matches!(
        name,
        "audio"
            | "button"
            | "canvas"
            | "dialog"
            | "embed"
            | "frame"
            | "frameset"
            | "iframe"
            | "input"
            | "link"
            | "map"
            | "noframes"
            | "noscript"
            | "object"
            | "option"
            | "optgroup"
            | "param"
            | "rp"
            | "script"
            | "select"
            | "source"
            | "style"
            | "svg"
            | "template"
            | "textarea"
            | "title"
            | "track"
            | "video"
    )
}
