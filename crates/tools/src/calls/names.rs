//! What other agents call the tools that we have, and what they call the fields of their inputs.

use serde_json::Value;

/// What models put before the name of a tool.
const PREFIXES: &[&str] = &[
    "functions.",
    "functions/",
    "functions:",
    "function.",
    "default_api.",
    "default_api:",
    "tools.",
    "tools/",
    "tool.",
    "tool:",
    "fastness.",
    "fastness__",
    "builtin.",
];

/// Names that other agents have for a tool, without case and separators.
const ALIASES: &[(&str, &[&str])] = &[
    (
        "read",
        &[
            "cat",
            "readfile",
            "view",
            "viewfile",
            "openfile",
            "open",
            "fileread",
            "getfile",
            "getfilecontents",
            "readtextfile",
            "readfilecontents",
            "showfile",
            "head",
        ],
    ),
    (
        "write",
        &[
            "writefile",
            "createfile",
            "savefile",
            "filewrite",
            "writetofile",
            "writetextfile",
            "create",
            "newfile",
            "overwritefile",
        ],
    ),
    (
        "edit",
        &[
            "strreplace",
            "editfile",
            "replace",
            "replaceinfile",
            "searchreplace",
            "searchandreplace",
            "stringreplace",
            "replacestringinfile",
            "fileedit",
            "replacetext",
            "modifyfile",
            "updatefile",
        ],
    ),
    (
        "list",
        &[
            "ls",
            "dir",
            "listdir",
            "listdirectory",
            "listfiles",
            "readdir",
            "listfolder",
            "readdirectory",
        ],
    ),
    (
        "glob",
        &[
            "find",
            "findfiles",
            "filesearch",
            "globsearch",
            "findfile",
            "searchfilesbyname",
            "globfiles",
            "globfilesearch",
            "findbyname",
        ],
    ),
    (
        "grep",
        &[
            "rg",
            "ripgrep",
            "search",
            "searchfiles",
            "grepsearch",
            "searchfilecontent",
            "searchcode",
            "codesearch",
            "findinfiles",
            "searchtext",
            "contentsearch",
            "grepfiles",
        ],
    ),
    (
        "bash",
        &[
            "shell",
            "sh",
            "zsh",
            "runterminalcmd",
            "runterminalcommand",
            "executecommand",
            "runcommand",
            "terminal",
            "exec",
            "execute",
            "runshellcommand",
            "runinterminal",
            "localshell",
            "shellcommand",
            "command",
            "cmd",
            "run",
            "runshell",
            "executebash",
            "bashcommand",
            "execcommand",
            "powershell",
            "executeshell",
            "runbash",
            "shellexec",
        ],
    ),
    (
        "todo",
        &[
            "todowrite",
            "updateplan",
            "writetodos",
            "todolist",
            "updatetodolist",
            "plan",
            "settodos",
            "managetodolist",
        ],
    ),
    (
        "ask_user",
        &[
            "ask",
            "askfollowupquestion",
            "question",
            "askquestion",
            "askhuman",
            "askuserquestion",
            "requestuserinput",
        ],
    ),
    (
        "web_fetch",
        &[
            "fetch",
            "fetchurl",
            "readurl",
            "urlfetch",
            "httpget",
            "browse",
            "fetchwebpage",
            "readwebpage",
            "visitpage",
            "openurl",
        ],
    ),
    (
        "web_search",
        &[
            "googlewebsearch",
            "searchweb",
            "googlesearch",
            "internetsearch",
            "browsersearch",
        ],
    ),
    (
        "task",
        &[
            "agent",
            "dispatchagent",
            "subagent",
            "delegate",
            "spawnagent",
            "newtask",
            "runagent",
        ],
    ),
    ("skill", &["loadskill", "useskill", "runskill"]),
    (
        "notebook_edit",
        &["editnotebook", "notebookeditcell", "editnotebookcell"],
    ),
    (
        "lsp",
        &["languageserver", "gotodefinition", "findreferences"],
    ),
];

/// Tools of other agents that do several things; the field `command` says which.
const EDITORS: &[&str] = &[
    "strreplaceeditor",
    "strreplacebasededittool",
    "texteditor",
    "editor",
];

/// Names of tools that work in another way than ours, and the tool to use instead.
const HINTS: &[(&str, &str)] = &[
    ("applypatch", "edit"),
    ("applydiff", "edit"),
    ("patch", "edit"),
    ("multiedit", "edit"),
    ("insert", "edit"),
    ("deletefile", "bash"),
    ("removefile", "bash"),
    ("movefile", "bash"),
    ("python", "bash"),
    ("codeinterpreter", "bash"),
];

/// Names of a field, by the name that the tool knows. `*` is any tool.
const FIELDS: &[(&str, &str, &[&str])] = &[
    (
        "*",
        "path",
        &[
            "filepath",
            "filename",
            "file",
            "absolutepath",
            "targetfile",
            "relativepath",
            "pathname",
            "notebookpath",
            "filetoread",
            "filetoedit",
            "targetpath",
        ],
    ),
    ("list", "path", DIRECTORY),
    ("glob", "path", DIRECTORY),
    ("grep", "path", DIRECTORY),
    (
        "read",
        "offset",
        &[
            "startline",
            "linestart",
            "firstline",
            "start",
            "fromline",
            "line",
        ],
    ),
    (
        "read",
        "limit",
        &[
            "maxlines",
            "numlines",
            "lines",
            "count",
            "length",
            "linecount",
        ],
    ),
    (
        "write",
        "content",
        &[
            "contents",
            "text",
            "filetext",
            "data",
            "body",
            "filecontent",
            "code",
        ],
    ),
    (
        "edit",
        "old",
        &[
            "oldstring",
            "oldstr",
            "oldtext",
            "search",
            "find",
            "original",
            "searchtext",
            "oldcontent",
        ],
    ),
    (
        "edit",
        "new",
        &[
            "newstring",
            "newstr",
            "newtext",
            "replace",
            "replacement",
            "replacewith",
            "newcontent",
        ],
    ),
    (
        "edit",
        "replaceAll",
        &["all", "replaceallmatches", "global"],
    ),
    (
        "bash",
        "command",
        &[
            "cmd",
            "script",
            "shellcommand",
            "code",
            "commandline",
            "input",
        ],
    ),
    (
        "bash",
        "cwd",
        &[
            "workdir",
            "workingdirectory",
            "workingdir",
            "directory",
            "dir",
        ],
    ),
    (
        "bash",
        "timeoutMs",
        &["timeoutmilliseconds", "timeoutmillis"],
    ),
    (
        "grep",
        "pattern",
        &[
            "query",
            "regex",
            "regexp",
            "search",
            "searchpattern",
            "searchterm",
            "expression",
            "text",
        ],
    ),
    (
        "grep",
        "glob",
        &[
            "include",
            "includepattern",
            "filepattern",
            "includes",
            "filter",
            "files",
        ],
    ),
    ("grep", "context", &["contextlines", "c", "linesaround"]),
    (
        "glob",
        "pattern",
        &[
            "glob",
            "globpattern",
            "query",
            "filepattern",
            "name",
            "search",
        ],
    ),
    (
        "todo",
        "items",
        &[
            "todos", "todolist", "plan", "tasks", "steps", "list", "entries",
        ],
    ),
    (
        "todo",
        "content",
        &[
            "text",
            "title",
            "step",
            "task",
            "description",
            "name",
            "todo",
        ],
    ),
    (
        "ask_user",
        "question",
        &["prompt", "message", "text", "query"],
    ),
    (
        "ask_user",
        "options",
        &["choices", "answers", "suggestions", "followup"],
    ),
    ("web_fetch", "url", &["uri", "link", "address", "href"]),
    ("web_fetch", "prompt", &["question", "query"]),
    (
        "web_search",
        "query",
        &["q", "searchterm", "search", "keywords", "term", "text"],
    ),
    (
        "web_search",
        "limit",
        &["count", "numresults", "maxresults", "n"],
    ),
    ("skill", "name", &["skill", "skillname"]),
    ("slash_command", "name", &["command", "commandname"]),
    ("slash_command", "args", &["arguments", "input"]),
    (
        "task",
        "agent",
        &["subagenttype", "agenttype", "agentname", "subagent"],
    ),
    (
        "task",
        "prompt",
        &["task", "instructions", "message", "description"],
    ),
    ("lsp", "operation", &["action", "op", "method"]),
    ("lsp", "line", &["linenumber", "row"]),
    ("lsp", "column", &["character", "col"]),
    ("notebook_edit", "cellId", &["cell"]),
    (
        "notebook_edit",
        "source",
        &["newsource", "content", "text", "code"],
    ),
    ("notebook_edit", "kind", &["celltype"]),
    ("notebook_edit", "mode", &["editmode"]),
];

const DIRECTORY: &[&str] = &[
    "directory",
    "dir",
    "dirpath",
    "directorypath",
    "folder",
    "targetdirectory",
    "relativeworkspacepath",
    "root",
    "searchpath",
    "searchdirectory",
];

/// Words for a value that a field may have, by the value.
const VALUES: &[(&str, &[&str])] = &[
    ("completed", &["done", "complete", "finished", "closed"]),
    (
        "in_progress",
        &["doing", "active", "started", "current", "working"],
    ),
    ("pending", &["todo", "open", "notstarted", "new"]),
    ("definitions", &["definition", "gotodefinition"]),
    ("references", &["reference", "findreferences"]),
    ("symbols", &["symbol", "documentsymbol", "documentsymbols"]),
    ("diagnostics", &["diagnostic", "errors"]),
];

/// A name without case and separators.
pub(super) fn plain(name: &str) -> String {
    let letters = name.chars().filter(|c| c.is_alphanumeric());
    letters.flat_map(char::to_lowercase).collect()
}

/// A name without what models put around it.
pub(super) fn bare(name: &str) -> &str {
    let mut name = name.trim().trim_matches(['`', '"', '\'']);
    name = name.strip_suffix("()").unwrap_or(name);
    for _ in 0..2 {
        let shorter = PREFIXES.iter().find_map(|prefix| {
            let is_prefix = name.get(..prefix.len())?.eq_ignore_ascii_case(prefix);
            is_prefix.then(|| &name[prefix.len()..])
        });
        name = shorter.unwrap_or(name);
    }
    name
}

/// Our tool for another agent's, by its plain name. Some need another input, which is changed.
pub(super) fn alias(plain: &str, input: &mut Value) -> Option<&'static str> {
    if EDITORS.contains(&plain) {
        return editor(input);
    }
    let found = ALIASES.iter().find(|(_, names)| names.contains(&plain));
    found.map(|(tool, _)| *tool)
}

/// A tool that may help in place of a tool that we do not have.
pub(super) fn hint(plain: &str) -> Option<&'static str> {
    let found = HINTS.iter().find(|(name, _)| *name == plain);
    found.map(|(_, tool)| *tool)
}

/// The field of `tool` that is meant by `key`.
pub(super) fn field(tool: &str, key: &str) -> Option<&'static str> {
    let plain = plain(key);
    let is_meant = |(of, _, names): &&(&str, &str, &[&str])| {
        (*of == tool || *of == "*") && names.contains(&plain.as_str())
    };
    // A tool's own words come first.
    let own = FIELDS.iter().filter(|(of, ..)| *of == tool).find(is_meant);
    let found = own.or_else(|| FIELDS.iter().find(is_meant));
    found.map(|(_, field, _)| *field)
}

/// The value that is meant by `word`, if it is one of `allowed`.
pub(super) fn value<'a>(word: &str, allowed: &[&'a str]) -> Option<&'a str> {
    let plain_word = plain(word);
    let same = allowed.iter().find(|value| plain(value) == plain_word);
    let meant = || {
        let found = VALUES
            .iter()
            .find(|(_, words)| words.contains(&plain_word.as_str()));
        let (value, _) = found?;
        allowed.iter().find(|allowed| *allowed == value)
    };
    same.or_else(meant).copied()
}

/// The tool that a call of a tool for everything is for.
fn editor(input: &mut Value) -> Option<&'static str> {
    // Without an input, only whether there is such a tool is asked.
    let Value::Object(fields) = input else {
        return Some("read");
    };
    let command = fields.get("command").and_then(Value::as_str)?;
    let tool = match plain(command).as_str() {
        "view" => "read",
        "create" => "write",
        "strreplace" => "edit",
        _ => return None,
    };
    fields.shift_remove("command");
    Some(tool)
}
