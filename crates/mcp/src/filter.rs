//! Which of a server's tools are offered: the allow and deny lists of its settings.

use domain::ToolServer;
use domain::stars::is_like;

/// Whether `tool` of `server` is offered: on the list of those that are, if there is one, and not on
/// that of those that are not.
pub(crate) fn is_offered(server: &ToolServer, tool: &str) -> bool {
    let is_in = |list: &[String]| list.iter().any(|pattern| is_like(tool, pattern));
    let is_allowed = server.allow.as_deref().is_none_or(is_in);
    is_allowed && !is_in(&server.deny)
}

#[cfg(test)]
mod tests {
    use domain::tool_server::{NamedBy, ServerProgram, ServerWay, ToolServer};

    use super::is_offered;

    #[test]
    fn deny_counts_more_than_allow_and_no_list_allows_all() {
        let program = ServerProgram::new("x", Vec::new());
        let mut server = ToolServer::new("s", ServerWay::Program(program), NamedBy::Operator);
        assert!(is_offered(&server, "read_file"));
        server.deny = vec!["*_file".to_owned(), "drop*all".to_owned()];
        assert!(!is_offered(&server, "read_file"));
        assert!(!is_offered(&server, "drop_it_all"));
        assert!(is_offered(&server, "read_files"));
        server.allow = Some(vec!["read*".to_owned()]);
        assert!(is_offered(&server, "read_files"));
        assert!(!is_offered(&server, "read_file"), "denied");
        assert!(!is_offered(&server, "list"), "not allowed");
        server.allow = Some(Vec::new());
        assert!(!is_offered(&server, "read_files"), "nothing is allowed");
    }
}
