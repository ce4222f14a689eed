//! The bounds of tool servers and what they may say.

use std::time::Duration;

/// Servers of one session: each is a process or a connection, and its tools stand in every request.
pub const MCP_SERVERS_MAX: usize = 64;

/// Tools of one server that are taken: a list with more is a mistake, or an attack.
pub const MCP_TOOLS_MAX: usize = 512;

/// Pages of a list that are asked for; a server whose cursors lead in a circle ends here.
pub const MCP_PAGES_MAX: usize = 64;

/// Longest name of a tool that models accept.
pub const MCP_NAME_BYTES_MAX: usize = 64;

/// Longest name of a server: with it and the prefix, half of a tool's name is left for the tool.
pub const MCP_SERVER_NAME_BYTES_MAX: usize = 24;

/// Bytes of a tool's description that the model is shown: about a thousand tokens in every request.
pub const MCP_DESCRIPTION_BYTES_MAX: usize = 4 * 1024;

/// Bytes of a tool's schema; one that is longer is left out with its tool, for it stands in every
/// request.
pub const MCP_SCHEMA_BYTES_MAX: usize = 64 * 1024;

/// Largest message of a server: a screenshot or a file fits, a flood does not.
pub const MCP_MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Messages of a server that wait to be read; the rest waits in its pipe.
pub const MCP_INCOMING_MAX: usize = 64;

/// Messages to a server that wait to be written: more than calls that run at once.
pub const MCP_OUTGOING_MAX: usize = 256;

/// Bytes of what a server complains about that are kept: its last words, for when it fails.
pub const MCP_COMPLAINT_BYTES_MAX: usize = 4 * 1024;

/// How long a server may take to begin: from starting the program or dialling to its list of tools.
/// Programs that install themselves at first start take that long.
pub const MCP_START_WAIT: Duration = Duration::from_secs(60);

/// How long one page of a list may take: servers have it at hand.
pub const MCP_LIST_WAIT: Duration = Duration::from_secs(15);

/// How long a call may be silent: no result and no progress.
pub const MCP_CALL_SILENCE: Duration = Duration::from_secs(120);

/// How long a call may take in all, however much progress it shows: as long as a command.
pub const MCP_CALL_WAIT: Duration = Duration::from_secs(30 * 60);

/// How long a server may take to end when it is asked to, before it is killed or left.
pub const MCP_CLOSE_WAIT: Duration = Duration::from_secs(2);

/// How long writing one message may take: a server that does not read for so long is dead.
pub const MCP_WRITE_WAIT: Duration = Duration::from_secs(30);

/// How long the first turn waits for servers that it does not need.
pub const MCP_GRACE: Duration = Duration::from_secs(1);

/// How long a turn waits for servers before it says which ones it waits for: most start sooner.
pub const MCP_QUIET_WAIT: Duration = Duration::from_secs(1);

/// How long after a server said that its tools have changed they are asked for: several such
/// messages in a row are one.
pub const MCP_CHANGE_WAIT: Duration = Duration::from_millis(200);

/// The shortest time between two tries to reach a server that failed.
pub const MCP_BACKOFF_MIN: Duration = Duration::from_millis(500);

/// The longest.
pub const MCP_BACKOFF_MAX: Duration = Duration::from_secs(30);

/// Failures in a row after which a server is left alone until somebody wants it.
pub const MCP_FAILURES_MAX: u32 = 5;

/// How long it is left alone even then: a server that cannot start must not be started for each call.
pub const MCP_REST: Duration = Duration::from_secs(60);

/// How long a connection must have lasted for its end not to count as a failure to begin.
pub const MCP_STEADY: Duration = Duration::from_secs(10);

/// Idle connections kept to one server over HTTP: calls of one session are rarely more at once.
pub const MCP_IDLE_CONNECTIONS_MAX: usize = 4;

/// Requests to one server at once over HTTP: as many as wait to be written.
pub const MCP_REQUESTS_MAX: usize = 256;

/// Bytes of an error that a server sent which are shown: a sentence or a stack trace.
pub const MCP_ERROR_BYTES_MAX: usize = 2 * 1024;

/// How long a person may take to log in: reading, a password, a second factor.
pub const MCP_LOGIN_WAIT: Duration = Duration::from_secs(5 * 60);

/// How long one request to an authorization server may take.
pub const MCP_LOGIN_REQUEST_WAIT: Duration = Duration::from_secs(20);

/// How long the lock of a login is waited for: longer than whoever holds it waits for a token.
pub const MCP_LOGIN_LOCK_WAIT: Duration = Duration::from_secs(30);

/// The shortest time between two tries to renew a login when the first did not work.
pub const MCP_RENEWAL_REST: Duration = Duration::from_secs(5);

/// The longest, however long the authorization server wants to be left alone: a server that says "a year" would
/// end the login.
pub const MCP_RENEWAL_REST_MAX: Duration = Duration::from_secs(5 * 60);

/// Bytes of what an authorization server says: descriptions and tokens are a few kilobytes.
pub const MCP_LOGIN_ANSWER_BYTES_MAX: usize = 256 * 1024;

/// Bytes of a stored login: what an authorization server said, and what the server wanted.
pub const MCP_LOGIN_BYTES_MAX: u64 = 1024 * 1024;

/// Connections at once to the place where people come back from logging in: a browser opens a few.
pub const MCP_LOGIN_VISITORS_MAX: usize = 16;

/// Bytes of what one of them says: a request line with a code, and a browser's headers.
pub const MCP_LOGIN_VISIT_BYTES_MAX: usize = 64 * 1024;

/// Blocks of one result that are looked at; the rest is counted.
pub const MCP_BLOCKS_MAX: usize = 256;

/// Times a call may be answered with a wish for more: a server that knows what it wants needs few.
pub const MCP_ROUNDS_MAX: usize = 10;

/// Tokens that a server may have the session's model write at once: a page or two, whatever it asks for.
pub const MCP_SAMPLE_TOKENS_MAX: u32 = 4_096;

/// Bytes that a server may have the model read at once: a long document.
pub const MCP_SAMPLE_BYTES_MAX: usize = 256 * 1024;

/// Wishes of servers for the model that wait in one turn: more than tools ever run at once.
pub const MCP_SAMPLES_MAX: usize = 8;

/// Lines of a server's own log that we take over, for each connection: a flood says no more.
pub const MCP_LOG_LINES_MAX: usize = 1_000;

/// Tools of servers that a model is told of one by one; among more it searches, for their descriptions
/// would fill its window before anything was asked.
pub const MCP_TOOLS_SHOWN_MAX: usize = 40;

/// Tools that one search finds: enough to choose from.
pub const MCP_FOUND_MAX: usize = 10;

/// Resources of a server that are listed: what a model reads through.
pub const MCP_RESOURCES_MAX: usize = 200;

/// Prompts of a server that can be typed: what a menu holds.
pub const MCP_PROMPTS_MAX: usize = 100;

/// How long a server that was silent too long has to show that it is still there: one that is answers
/// at once.
pub const MCP_PING_WAIT: Duration = Duration::from_secs(5);

/// How long a stream that broke has to be taken up again, while what waits on it goes on waiting.
pub const MCP_RESUME_WAIT: Duration = Duration::from_millis(800);

/// How long an authorization server may take to hear of a logout: a person waits for the command to end, and
/// what was granted is forgotten here already.
pub const MCP_REVOKE_WAIT: Duration = Duration::from_secs(5);

/// How long the first request to a server with a session waits for the stream on which the server can speak
/// first. Most open it or refuse it within a round trip; some say nothing until there is something to say.
pub const MCP_STREAM_WAIT: Duration = Duration::from_millis(500);
