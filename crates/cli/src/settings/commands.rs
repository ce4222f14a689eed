//! What commands that the agent starts see of the environment: everything but secrets.

use super::Environment;

/// Words in a variable's name that say that its value is nobody else's business.
const SECRET_WORDS: [&str; 17] = [
    "APIKEY",
    "AUTH",
    "AUTHORIZATION",
    "COOKIE",
    "CREDENTIAL",
    "CREDENTIALS",
    "DSN",
    "KEY",
    "KEYS",
    "PASS",
    "PASSPHRASE",
    "PASSWD",
    "PASSWORD",
    "PAT",
    "SECRET",
    "SECRETS",
    "TOKEN",
];

/// Parts of a word that say the same.
const SECRET_PARTS: [&str; 5] = ["APIKEY", "CREDENTIAL", "PASSWORD", "SECRET", "TOKEN"];

/// Names that sound like secrets and are none: where an agent listens that has them.
const HARMLESS: [&str; 2] = ["GPG_TTY", "SSH_AUTH_SOCK"];

/// Shortest value that is looked for elsewhere: shorter ones are in many values by chance.
const VALUE_CHARS_MIN: usize = 8;

impl Environment {
    /// The variables for commands that the agent starts. Left out are those with the name of a
    /// secret, those that hold the value of such a one, and addresses with a password in them.
    pub(crate) fn for_commands(&self) -> Vec<(String, String)> {
        let secrets = self.variables.iter().filter(|(name, _)| is_secret(name));
        let secrets: Vec<&String> = secrets
            .map(|(_, value)| value)
            .filter(|value| value.chars().count() >= VALUE_CHARS_MIN)
            .collect();
        let tells = |value: &str| {
            secrets.iter().any(|secret| value.contains(secret.as_str())) || has_password(value)
        };
        let harmless = self.variables.iter();
        let harmless = harmless.filter(|(name, value)| !is_secret(name) && !tells(value));
        harmless
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }
}

/// Whether a variable of this name holds a secret.
fn is_secret(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    let is_word = |word: &str| {
        SECRET_WORDS.contains(&word) || SECRET_PARTS.iter().any(|part| word.contains(part))
    };
    !HARMLESS.contains(&name) && upper.split(['_', '-', '.']).any(is_word)
}

/// Whether a value is an address such as `postgres://user:password@host`.
fn has_password(value: &str) -> bool {
    let Some((_, after)) = value.split_once("://") else {
        return false;
    };
    let authority = after.split(['/', '?', '#']).next().unwrap_or_default();
    authority
        .rsplit_once('@')
        .is_some_and(|(user, _)| user.contains(':'))
}

#[cfg(test)]
mod tests {
    use super::Environment;

    #[test]
    fn secrets_stay_here_under_whatever_name() {
        let environment = Environment::of(&[
            ("PATH", "/bin"),
            ("HOME", "/home/me"),
            ("KEYBOARD", "us"),
            ("MONKEY", "banana"),
            ("SSH_AUTH_SOCK", "/run/agent"),
            ("ANTHROPIC_API_KEY", "sk-ant-123456"),
            ("FASTNESS_TOKEN", "tttttttttttt"),
            ("GITHUB_TOKEN", "ghp_abcdefgh"),
            ("MyTokens", "other-secret"),
            ("AWS_SECRET_ACCESS_KEY", "aws-secret-value"),
            ("DB_PASSWORD", "short"),
            ("npm_config__authToken", "npm-secret-value"),
            ("DATABASE_URL", "postgres://me:hunter2@db/x"),
            ("PROXY", "http://proxy:3128"),
            ("HOMEPAGE", "https://example.org/@me:x"),
            ("COPY", "x sk-ant-123456 y"),
            ("GREETING", "short"),
        ]);
        let names: Vec<String> = environment
            .for_commands()
            .into_iter()
            .map(|(n, _)| n)
            .collect();
        let expected = [
            "GREETING",
            "HOME",
            "HOMEPAGE",
            "KEYBOARD",
            "MONKEY",
            "PATH",
            "PROXY",
            "SSH_AUTH_SOCK",
        ];
        assert_eq!(names, expected);
    }
}
