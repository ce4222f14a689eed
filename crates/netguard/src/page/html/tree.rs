//! The tree of a page: one vector, parents before their children, never deeper than so much.

/// Deepest nesting that is kept; what lies deeper becomes part of the deepest element. Browsers
/// stop at 512; pages that people write stay below 100.
pub(super) const DEPTH_MAX: usize = 150;

/// Most nodes that are kept. A node needs less than 100 bytes.
pub(super) const NODES_MAX: usize = 400_000;

/// The elements that mean something here, sorted. All others are [`Tag::OTHER`].
const NAMES: &[&str] = &[
    "",
    "#text",
    "a",
    "abbr",
    "address",
    "annotation",
    "article",
    "aside",
    "audio",
    "b",
    "base",
    "blockquote",
    "body",
    "br",
    "button",
    "canvas",
    "caption",
    "center",
    "cite",
    "code",
    "col",
    "dd",
    "del",
    "details",
    "dialog",
    "div",
    "dl",
    "dt",
    "em",
    "embed",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "frame",
    "frameset",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "head",
    "header",
    "hgroup",
    "hr",
    "html",
    "i",
    "iframe",
    "img",
    "input",
    "kbd",
    "legend",
    "li",
    "link",
    "main",
    "map",
    "mark",
    "math",
    "menu",
    "meta",
    "nav",
    "noframes",
    "noscript",
    "object",
    "ol",
    "optgroup",
    "option",
    "p",
    "param",
    "picture",
    "plaintext",
    "pre",
    "q",
    "rp",
    "rt",
    "ruby",
    "s",
    "samp",
    "script",
    "search",
    "section",
    "select",
    "source",
    "span",
    "strike",
    "strong",
    "style",
    "sub",
    "summary",
    "sup",
    "svg",
    "table",
    "tbody",
    "td",
    "template",
    "textarea",
    "tfoot",
    "th",
    "thead",
    "time",
    "title",
    "tr",
    "track",
    "tt",
    "ul",
    "var",
    "video",
    "wbr",
    "xmp",
];

/// An element's name, as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag(u8);

impl Tag {
    /// Any element that means nothing here.
    pub(super) const OTHER: Self = Self(0);
    /// A piece of text.
    pub(super) const TEXT: Self = Self(1);
    /// How many there are.
    pub(super) const COUNT: usize = NAMES.len();

    pub(super) fn of(name: &str) -> Self {
        let found = NAMES.binary_search(&name).ok();
        let found = found.and_then(|index| u8::try_from(index).ok());
        found
            .filter(|index| *index > Self::TEXT.0)
            .map_or(Self::OTHER, Self)
    }

    pub(super) fn name(self) -> &'static str {
        NAMES.get(self.index()).copied().unwrap_or_default()
    }

    pub(super) fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// The place of a node in its tree.
pub(super) type NodeId = usize;

/// The attributes that are kept.
pub(super) const ATTRIBUTES: &[&str] = &[
    "alt",
    "checked",
    "class",
    "colspan",
    "data-lang",
    "data-language",
    "data-src",
    "href",
    "id",
    "role",
    "src",
    "start",
    "type",
    "width",
];

#[derive(Debug)]
struct Node {
    tag: Tag,
    parent: Option<NodeId>,
    first_child: Option<NodeId>,
    last_child: Option<NodeId>,
    next: Option<NodeId>,
    text: String,
    attributes: Vec<(&'static str, String)>,
}

/// A page. Node 0 is the whole of it.
#[derive(Debug)]
pub(super) struct Tree {
    nodes: Vec<Node>,
}

impl Default for Tree {
    fn default() -> Self {
        let mut tree = Self { nodes: Vec::new() };
        tree.add(None, Tag::of("body"), Vec::new(), String::new());
        tree
    }
}

impl Tree {
    pub(super) const ROOT: NodeId = 0;

    pub(super) fn is_full(&self) -> bool {
        self.nodes.len() >= NODES_MAX
    }

    pub(super) fn add_element(
        &mut self,
        parent: NodeId,
        tag: Tag,
        attributes: Vec<(&'static str, String)>,
    ) -> NodeId {
        self.add(Some(parent), tag, attributes, String::new())
    }

    /// Adds text after whatever `parent` has; text after text becomes one.
    pub(super) fn add_text(&mut self, parent: NodeId, text: &str) {
        let last = self.nodes.get(parent).and_then(|node| node.last_child);
        if let Some(last) = last.and_then(|last| self.nodes.get_mut(last))
            && last.tag == Tag::TEXT
        {
            last.text.push_str(text);
            return;
        }
        self.add(Some(parent), Tag::TEXT, Vec::new(), text.to_owned());
    }

    fn add(
        &mut self,
        parent: Option<NodeId>,
        tag: Tag,
        attributes: Vec<(&'static str, String)>,
        text: String,
    ) -> NodeId {
        let id = self.nodes.len();
        self.nodes.push(Node {
            tag,
            parent,
            first_child: None,
            last_child: None,
            next: None,
            text,
            attributes,
        });
        let Some(parent) = parent.and_then(|parent| self.nodes.get_mut(parent)) else {
            return id;
        };
        let before = parent.last_child.replace(id);
        parent.first_child.get_or_insert(id);
        if let Some(before) = before.and_then(|before| self.nodes.get_mut(before)) {
            before.next = Some(id);
        }
        id
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// All nodes, parents first.
    pub(super) fn all(&self) -> impl DoubleEndedIterator<Item = NodeId> + use<> {
        0..self.nodes.len()
    }

    pub(super) fn parent(&self, node: NodeId) -> Option<NodeId> {
        self.nodes.get(node)?.parent
    }

    pub(super) fn children(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        let first = self.nodes.get(node).and_then(|node| node.first_child);
        std::iter::successors(first, |child| self.nodes.get(*child)?.next)
    }

    /// The element's name; `#text` for text, empty for elements that mean nothing here.
    pub(super) fn name(&self, node: NodeId) -> &'static str {
        self.nodes.get(node).map_or("", |node| node.tag.name())
    }

    /// The text, if the node is one.
    pub(super) fn text(&self, node: NodeId) -> Option<&str> {
        let node = self.nodes.get(node)?;
        (node.tag == Tag::TEXT).then_some(node.text.as_str())
    }

    pub(super) fn attribute(&self, node: NodeId, name: &str) -> Option<&str> {
        let attributes = &self.nodes.get(node)?.attributes;
        let found = attributes.iter().find(|(known, _)| *known == name)?;
        Some(&found.1)
    }

    /// The words of the class and id, cut at everything that is not a letter or digit.
    pub(super) fn words(&self, node: NodeId) -> impl Iterator<Item = &str> {
        let value = |name| self.attribute(node, name).unwrap_or_default();
        let both = [value("class"), value("id")].into_iter();
        let words = both.flat_map(|text| text.split(|c: char| !c.is_ascii_alphanumeric()));
        words.filter(|word| !word.is_empty())
    }
}

/// Whether an element stands on lines of its own.
pub(super) fn is_block(name: &str) -> bool {
    matches!(
        name,
        "address"
            | "article"
            | "aside"
            | "blockquote"
            | "body"
            | "caption"
            | "center"
            | "dd"
            | "details"
            | "dialog"
            | "div"
            | "dl"
            | "dt"
            | "fieldset"
            | "figcaption"
            | "figure"
            | "footer"
            | "form"
            | "h1"
            | "h2"
            | "h3"
            | "h4"
            | "h5"
            | "h6"
            | "header"
            | "hgroup"
            | "hr"
            | "html"
            | "legend"
            | "li"
            | "main"
            | "menu"
            | "nav"
            | "ol"
            | "p"
            | "pre"
            | "search"
            | "section"
            | "summary"
            | "table"
            | "tbody"
            | "td"
            | "tfoot"
            | "th"
            | "thead"
            | "tr"
            | "ul"
            | "xmp"
    )
}
