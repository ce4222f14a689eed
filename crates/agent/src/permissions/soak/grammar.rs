//! Commands that are made by chance: plain ones with something odd in them, more often than not.

/// Where choices come from: a seed, or the bytes of a fuzzer.
#[derive(Debug)]
pub struct Choices {
    state: u64,
    bytes: Option<std::vec::IntoIter<u8>>,
}

impl Choices {
    /// Always the same choices for one seed and number.
    #[must_use]
    pub fn from_seed(seed: u64, number: u64) -> Self {
        let mixed =
            seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number.wrapping_mul(0xd134_2543_de82_ef95);
        let mut choices = Self {
            state: mixed | 1,
            bytes: None,
        };
        for _ in 0..4 {
            choices.below(2);
        }
        choices
    }

    /// The choices that `bytes` make, and the first of all when they are used up.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self {
            state: 1,
            bytes: Some(Vec::from(bytes).into_iter()),
        }
    }

    /// A number below `end`, or 0.
    fn below(&mut self, end: usize) -> usize {
        if let Some(bytes) = &mut self.bytes {
            return usize::from(bytes.next().unwrap_or_default()) % end.max(1);
        }
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        usize::try_from(self.state >> 33).unwrap_or_default() % end.max(1)
    }

    fn one_of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        let at = self.below(all.len());
        all.get(at).copied().unwrap_or_default()
    }

    /// Whether something happens that happens once in `times`; never without choices left.
    fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == times - 1
    }
}

const PROGRAMS: &[&str] = &[
    "git",
    "ls",
    "find",
    "cat",
    "no",
    "x",
    "sort",
    "touch",
    "./git",
    "echo",
    "true",
    "false",
    ":",
    "cd src",
    "'git'",
    "g\\it",
    "\"ls\"",
    "git status",
    "git status",
    "ls -l",
    "find .",
];

const ODD_PROGRAMS: &[&str] = &[
    "$x",
    "g*",
    "{git,ls}",
    "`ls`",
    "~/git",
    "../git",
    "=ls",
    "%1",
    "git=1",
    "\"\"",
    "if",
    "while",
    "!",
    "{",
    "}",
    "[[",
    "((",
    "in",
    "time",
    "coproc",
    "function",
    "then",
    "/bin/true",
    "./",
    "-x",
    "[",
    "]",
    "test",
    "exec",
    "eval",
    "builtin",
    "command",
    "export",
    "set",
    "read",
    "trap",
    "alias",
    "source",
    ".",
    "printf",
    "é",
    "let",
];

const PREFIXES: &[&str] = &[
    "timeout 5 ",
    "timeout -k 1 5 ",
    "timeout 5s ",
    "nice ",
    "nice -n 5 ",
    "nice -5 ",
    "nohup ",
    "command ",
    "command -- ",
    "exec ",
    "stdbuf -oL ",
    "! ",
    "time ",
    "time -p ",
    "2>&1 ",
    ">/dev/null ",
    "nohup nice ",
];

const ODD_PREFIXES: &[&str] = &[
    "X=1 ",
    "PATH=. ",
    "x=a\\[\\$\\(touch\\ P\\)\\] ",
    "timeout {5,touch,P} ",
    "timeout $x ",
    "timeout -s ",
    "timeout --signal 9 5 ",
    "timeout 5 -- ",
    "nice -n ",
    "env ",
    "env -S",
    "exec -a a ",
    "command -p ",
    "builtin ",
    "coproc ",
    "! ! ",
    "time -- ",
    "time -p -- ",
    "!",
    "eval ",
    "exec >P ",
    "if ",
    "X= ",
    "X=1\\\n ",
    "x+=1 ",
    "timeout 5\\\n ",
    "./timeout 5 ",
    "nohup -- ",
    "stdbuf -o L ",
    "nice --adjustment=5 ",
    "timeout 5 X=1 ",
];

const WORDS: &[&str] = &[
    "status",
    "-s",
    "--short",
    "x",
    "a.txt",
    "src",
    "P",
    ".",
    "-name",
    "'a b'",
    "\"a b\"",
    "a\\ b",
    "''",
    "\"\"",
    "'$(touch P)'",
    "\"\\$x\"",
    "a'b'c",
    "\"a'b\"",
    "'a\"b'",
    "a*",
    "src/*",
    "./*",
    "a.t?t",
    "a[b]",
    "HEAD~1",
    "stash@{0}",
    "{}",
    "--x=y",
    "a=b",
    "a:b",
    "a,b",
    "a#b",
    "+x",
    "@",
    "%",
    "^",
    "'*'",
    "\\*",
    "\"*\"",
    "\\$x",
    "'`touch P`'",
    "\";\"",
    "\\;",
    "'&&'",
    "é",
    "a$",
    "\"a$\"",
    "!",
    "[",
    "]",
    "}",
    "a!",
    "5",
    "-5",
    "a}b",
    "]a",
    "\"a!\"",
    "\"a\\b\"",
    "\"\\\\\"",
    "'\\'",
    "--",
    "-",
    "a.txt*",
    "/dev/null",
    "x=",
    "=x",
    "a\\=b",
];

const ODD_WORDS: &[&str] = &[
    "$x",
    "\"$x\"",
    "${x:-<(touch P)}",
    "${x:=a\\[\\$\\(touch\\ P\\)\\]}",
    "$((y))",
    "$((x))",
    "$(touch P)",
    "\"$(touch P)\"",
    "`touch P`",
    "<(touch P)",
    ">(touch P)",
    "{5,touch,P}",
    "{-exec,touch,P,\\;}",
    "{a..c}",
    "{a,b}",
    "{a}{b,c}",
    "{",
    "~",
    "~/x",
    "a=~",
    "a:~",
    "~x",
    "*",
    "*.txt",
    "-*",
    "?",
    "[ab]*",
    "?(a)",
    "!(a)",
    "@(a|b)",
    "+(a)",
    "*(a)",
    "!x",
    "!!",
    "\"!x\"",
    "$'a\\x41'",
    "$'\\''",
    "$\"a\"",
    "$'",
    "a\\\nb",
    "\\\n",
    "#c",
    "x+=1",
    "a[0]=1",
    "\u{a0}",
    "a\u{a0}b",
    "\r",
    "\u{200b}",
    "$[1]",
    "$[x]",
    "${x}",
    "${!x}",
    "$1",
    "$@",
    "$$",
    "${#x}",
    "\"a\\\nb\"",
    "'a\nb'",
    "$a*",
    "\"a\"*",
    "\"-\"*",
    "''*",
    "''~",
    "a~",
    "\"a=\"~",
    "\\~",
    "{a",
    "a{b,c}d",
    "{,}",
    "{a\\,b}",
    "{'a',b}",
    "\\{a,b}",
    "{a,b\\}",
    "$",
    "\"$\"",
    "$\\x",
    "$'a'",
    "^a^b",
    "[a",
    "a]*",
    "[!a]*",
    "**",
    "{1..3}",
    "$(",
    "`",
    "'",
    "\"",
    "\\",
    "(",
    ")",
    "<",
    "&",
    "{x}>P",
    "{x}",
    "P}",
    "{\"\"a,b}",
];

const LETTERS: &[&str] = &[
    "'", "\"", "\\", "$", "`", "{", "}", "[", "]", "*", "?", "~", "!", "#", "=", ":", ";", "&",
    "|", "(", ")", "<", ">", " ", "\n", "\t", "a", "P", "1", "-", ".", ",", "@", "%", "^", "+",
    "/",
];

const REDIRECTIONS: &[&str] = &[
    ">/dev/null",
    "2>&1",
    "2>/dev/null",
    "> /dev/null",
    ">>/dev/null",
    "</dev/null",
    ">&2",
    "1>&2",
    "&>/dev/null",
    "&>>/dev/null",
    "> '/dev/null'",
    "2>&1 >/dev/null",
];

const ODD_REDIRECTIONS: &[&str] = &[
    ">P",
    "2>P",
    ">>P",
    ">|P",
    "<>P",
    "&>P",
    ">&P",
    "&>>P",
    "{fd}>P",
    "{fd}>/dev/null",
    "<<<x",
    "<<<$(touch P)",
    "<<E\nx\nE\n",
    "<<E\n$(touch P)\nE\n",
    "<<'E'\nx\nE\n",
    "12>/dev/null",
    "12>P",
    "2>&1x",
    "2>&-",
    "2>&1-",
    ">/dev/null/../P",
    "<P",
    "< <(touch P)",
    "> >(touch P)",
    ">$x",
    ">a*",
    ">'P'",
    ">\\P",
    "&>/dev/null touch P",
    "2>&",
    ">",
    "<&0",
    "0<&1",
    ">&$x",
    "2>&1#",
    ">/dev/null#",
    "a>P",
    "2 >P",
    "2\\>P",
    "\\2>P",
    "'2'>P",
    ">\\\nP",
    ">/dev/\\\nnull",
];

const BLANKS: &[&str] = &[
    " ",
    " ",
    " ",
    " ",
    "  ",
    "\t",
    " \\\n",
    " \\\n  ",
    "\\\n",
    " \\\n\\\n",
];

const JOINTS: &[&str] = &[
    "; ",
    ";",
    " && ",
    "&&",
    " || ",
    "||",
    " | ",
    "|",
    " |& ",
    " & ",
    "&",
    "\n",
    " ;\n",
    "\n\n",
    " # c\n",
    ";#c\n",
    " &&\n",
    " |\n",
    " || # c\n",
];

const ODD_JOINTS: &[&str] = &[
    ";;", " ;& ", "; ;", "&&&", "|||", "& &", "&;", " \\\n&& ", "&\\\n& ", " |\\\n| ", "#c\n",
    "\r\n", " & | ", "; & ", "\n; ", "\n&& ", ";\\\n", " #c \\\n", ")", "}", "(", " () ", ";;&",
];

/// How deep commands stand in each other.
const DEPTH_MAX: usize = 3;

/// One command, of any length.
pub(super) fn command(choices: &mut Choices) -> String {
    // How often something is odd: never, now and then, often.
    let odd = [usize::MAX, 30, 12, 5][choices.below(4)];
    let mut text = list(choices, odd, 0);
    if choices.once_in(4) {
        for _ in 0..=choices.below(3) {
            mutate(choices, &mut text);
        }
    }
    text
}

fn is_odd(choices: &mut Choices, odd: usize) -> bool {
    odd != usize::MAX && choices.once_in(odd)
}

fn pick<'a>(choices: &mut Choices, odd: usize, plain: &[&'a str], strange: &[&'a str]) -> &'a str {
    let is_odd = is_odd(choices, odd);
    choices.one_of(if is_odd { strange } else { plain })
}

fn list(choices: &mut Choices, odd: usize, depth: usize) -> String {
    let mut text = step(choices, odd, depth);
    for _ in 0..choices.below(4) {
        text.push_str(pick(choices, odd, JOINTS, ODD_JOINTS));
        text.push_str(&step(choices, odd, depth));
    }
    if choices.once_in(8) {
        text.push_str(choices.one_of(&[";", "\n", " &", " # c", " "]));
    }
    text
}

fn step(choices: &mut Choices, odd: usize, depth: usize) -> String {
    if depth >= DEPTH_MAX || !choices.once_in(5) {
        return simple(choices, odd);
    }
    let inside = list(choices, odd, depth + 1);
    let quoted = || inside.replace('\'', "'\\''");
    match choices.below(12) {
        0 | 1 => format!("({inside})"),
        2 => format!("( {inside} ) >/dev/null"),
        3 => format!("{{ {inside}; }}"),
        4 => format!("{{ {inside}\n}} 2>&1"),
        5 => format!("sh -c '{}'", quoted()),
        6 => format!("bash -ec '{}'", quoted()),
        7 => format!("timeout 5 sh -c '{}' x y", quoted()),
        8 => format!("! ( {inside} )"),
        _ => {
            let frame = choices.one_of(&[
                "if true; then @; fi",
                "for x in a; do @; done",
                "while false; do @; done",
                "case a in a) @;; esac",
                "f() { @; }; f",
                "$(@)",
                "`@`",
                "{ @ }",
                "((@))",
                "[[ a ]] && @",
                "sh -c \"@\"",
                "eval '@'",
                "sh +c '@'",
                "sh -c -- '@'",
                "sh -c @",
                "{@;}",
                "(@",
                "@)",
                "./sh -c '@'",
                "zsh -c '@'",
                "sh -s -c '@'",
                "(@)x",
                "X=1 sh -c '@'",
                "coproc @",
                "select x in a; do @; done",
                "sh -cu '@'",
                "sh -c '@' $x",
                "exec sh -c '@'",
            ]);
            frame.replace('@', &inside)
        }
    }
}

fn simple(choices: &mut Choices, odd: usize) -> String {
    let mut text = String::new();
    if choices.once_in(4) {
        text.push_str(pick(choices, odd, PREFIXES, ODD_PREFIXES));
    }
    text.push_str(pick(choices, odd.saturating_mul(3), PROGRAMS, ODD_PROGRAMS));
    for _ in 0..choices.below(4) {
        text.push_str(pick(choices, odd, &BLANKS[..8], BLANKS));
        match is_odd(choices, odd) {
            true if choices.once_in(3) => {
                for _ in 0..=choices.below(5) {
                    text.push_str(choices.one_of(LETTERS));
                }
            }
            true => text.push_str(choices.one_of(ODD_WORDS)),
            false => text.push_str(choices.one_of(WORDS)),
        }
    }
    if choices.once_in(5) {
        text.push(' ');
        text.push_str(pick(choices, odd, REDIRECTIONS, ODD_REDIRECTIONS));
    }
    text
}

/// Adds, removes or doubles a character somewhere.
fn mutate(choices: &mut Choices, text: &mut String) {
    let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    let at = places
        .get(choices.below(places.len()))
        .copied()
        .unwrap_or_default();
    match choices.below(3) {
        0 if !text.is_empty() => {
            text.remove(at);
        }
        1 => text.insert_str(at, choices.one_of(ODD_WORDS)),
        _ => text.insert_str(at, choices.one_of(LETTERS)),
    }
}
