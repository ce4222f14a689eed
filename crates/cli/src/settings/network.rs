//! What the operator decided about the network: what is open, through which proxy, who searches.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use egress::{Bypass, Proxies, Proxy, RootSources, Roots, UnusableProxy};
use netguard::{Exception, Policy};
use toml::Value;
use toml::value::{Datetime, Offset};
use tools::web::{SearchKey, SearchProvider};

use super::Environment;
use super::file::ConfigFile;
use crate::render::Failure;

/// What was set about the network.
#[derive(Clone, Debug)]
pub(crate) struct NetworkSettings {
    /// For addresses that a model or a user names. Its proxy is the setting's, never that of an
    /// environment variable: a proxy resolves names by itself, out of reach of the guard.
    pub(crate) policy: Policy,
    /// For addresses that the operator names: models, MCP servers and logins to them.
    pub(crate) proxies: Proxies,
    /// Whether these come from environment variables.
    pub(crate) is_proxy_of_variables: bool,
    /// Variables that name a proxy which cannot be used.
    pub(crate) unusable_proxies: Vec<UnusableProxy>,
    /// Which certificates are trusted.
    pub(crate) roots: Roots,
    pub(crate) search: Option<SearchSettings>,
}

/// Who answers `web_search`, and where.
#[derive(Clone, Debug)]
pub(crate) struct SearchSettings {
    pub(crate) provider: SearchProvider,
    pub(crate) url: Option<String>,
}

/// Puts environment and file together.
///
/// # Errors
/// If a value cannot be used.
pub(super) fn resolve(
    environment: &Environment,
    file: &ConfigFile,
) -> anyhow::Result<NetworkSettings> {
    let policy = Policy {
        allow_private_networks: allow_private_networks(environment, file)?,
        exceptions: exceptions(environment, file)?,
        ..Policy::default()
    };
    let bypass = bypass(environment, file)?;
    let chosen = match proxy(environment, file)? {
        Some(ProxySetting::Direct) => Chosen::default(),
        Some(ProxySetting::Proxy(proxy, source)) => Chosen {
            set: Proxies::all(proxy, source, bypass),
            ..Chosen::default()
        },
        None => {
            let variable = |name: &str| environment.value(name);
            let (of_variables, unusable) = Proxies::of_variables(variable, bypass);
            Chosen {
                of_variables: Some(of_variables).filter(|proxies| !proxies.is_empty()),
                unusable,
                ..Chosen::default()
            }
        }
    };
    let policy = Policy {
        proxies: chosen.set.clone(),
        ..policy
    };
    Ok(NetworkSettings {
        policy,
        is_proxy_of_variables: chosen.of_variables.is_some(),
        proxies: chosen.of_variables.unwrap_or(chosen.set),
        unusable_proxies: chosen.unusable,
        roots: Roots::new(roots(environment)),
        search: search(environment, file)?,
    })
}

fn allow_private_networks(environment: &Environment, file: &ConfigFile) -> anyhow::Result<bool> {
    const NAME: &str = "FASTNESS_NETWORK_ALLOW_PRIVATE_NETWORKS";
    match environment.value(NAME) {
        Some("true" | "1") => return Ok(true),
        Some("false" | "0") => return Ok(false),
        Some(other) => {
            let sentence = format!("{NAME} takes true or false, not `{other}`");
            return Err(Failure::usage(sentence).into());
        }
        None => {}
    }
    match file.value("network", "allow_private_networks") {
        None => Ok(false),
        Some(value) => value.as_bool().ok_or_else(|| {
            let problem = "network.allow_private_networks is true or false";
            file.wrong(problem).into()
        }),
    }
}

/// Entries such as `127.0.0.1:3000` or `wiki.corp:8443 until 2026-12-31`.
fn exceptions(environment: &Environment, file: &ConfigFile) -> anyhow::Result<Vec<Exception>> {
    const NAME: &str = "FASTNESS_NETWORK_ALLOW";
    if let Some(entries) = environment.value(NAME) {
        let entries = entries.split(',').map(str::trim);
        let entries = entries.filter(|entry| !entry.is_empty()).map(|entry| {
            let read = exception(entry);
            read.map_err(|problem| Failure::usage(format!("{NAME}: `{entry}`: {problem}")).into())
        });
        return entries.collect();
    }
    let Some(entries) = file.value("network", "allow") else {
        return Ok(Vec::new());
    };
    let not_a_list = || file.wrong("network.allow is a list of texts, each HOST:PORT");
    let entries = entries.as_array().ok_or_else(not_a_list)?;
    let entries = entries.iter().map(|entry| {
        let entry = Value::as_str(entry).ok_or_else(not_a_list)?;
        let read = exception(entry);
        Ok(read.map_err(|problem| file.wrong(&format!("network.allow: `{entry}`: {problem}")))?)
    });
    entries.collect()
}

fn exception(text: &str) -> Result<Exception, String> {
    let (entry, until) = match text.split_once(" until ") {
        Some((entry, until)) => (entry.trim(), Some(until.trim())),
        None => (text, None),
    };
    let entry: Exception = entry
        .parse()
        .map_err(|error: netguard::ExceptionError| error.to_string())?;
    match until.map(|until| moment(until).ok_or(until)) {
        None => Ok(entry),
        Some(Ok(until)) => Ok(entry.until(until)),
        Some(Err(until)) => Err(format!(
            "`{until}` is not a time; write 2026-12-31 or 2026-12-31T18:00:00Z"
        )),
    }
}

/// A date, which ends at midnight UTC as it begins, or a time with its offset.
fn moment(text: &str) -> Option<SystemTime> {
    let moment: Datetime = text.parse().ok()?;
    let date = moment.date?;
    let (hour, minute, second) = match moment.time {
        None => (0, 0, 0),
        // A time of day means nothing without its zone.
        Some(_) if moment.offset.is_none() => return None,
        Some(time) => (time.hour, time.minute, time.second.unwrap_or(0)),
    };
    let zone_minutes = match moment.offset {
        Some(Offset::Custom { minutes }) => i64::from(minutes),
        Some(Offset::Z) | None => 0,
    };
    let days = days_since_1970(
        i64::from(date.year),
        i64::from(date.month),
        i64::from(date.day),
    );
    let minutes = days * 1_440 + i64::from(hour) * 60 + i64::from(minute) - zone_minutes;
    let seconds = u64::try_from(minutes * 60 + i64::from(second)).ok()?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    // Counting from 1 March puts the leap day last, so that months have fixed offsets.
    let year = if month <= 2 { year - 1 } else { year };
    let month = (month + 9) % 12;
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + day_of_year - 719_468
}

/// What `[network] proxy` says.
enum ProxySetting {
    /// `none`: no proxy, whatever the environment says.
    Direct,
    /// This one, and where it was set.
    Proxy(Proxy, &'static str),
}

/// The proxies that are used.
#[derive(Default)]
struct Chosen {
    /// By the setting.
    set: Proxies,
    /// By the usual variables.
    of_variables: Option<Proxies>,
    unusable: Vec<UnusableProxy>,
}

fn proxy(environment: &Environment, file: &ConfigFile) -> anyhow::Result<Option<ProxySetting>> {
    const NAME: &str = "FASTNESS_NETWORK_PROXY";
    const KEY: &str = "network.proxy";
    let read = |text: &str, source| match text.trim() {
        "none" => Ok(ProxySetting::Direct),
        text => Ok(ProxySetting::Proxy(text.parse()?, source)),
    };
    if let Some(text) = environment.value(NAME) {
        let read = read(text, NAME);
        let read =
            read.map_err(|error: egress::ProxyError| Failure::usage(format!("{NAME}: {error}")))?;
        return Ok(Some(read));
    }
    let Some(text) = file.text("network", "proxy")? else {
        return Ok(None);
    };
    let read = read(text, KEY);
    Ok(Some(
        read.map_err(|error| file.wrong(&format!("{KEY}: {error}")))?,
    ))
}

/// The hosts that are reached without a proxy: ours, else those of the usual variable.
fn bypass(environment: &Environment, file: &ConfigFile) -> anyhow::Result<Bypass> {
    if let Some(text) = environment.value("FASTNESS_NETWORK_NO_PROXY") {
        return Ok(Bypass::parse(text));
    }
    if let Some(value) = file.value("network", "no_proxy") {
        let wrong = || file.wrong("network.no_proxy is a list of texts, each a host or a network");
        let entries = value.as_array().ok_or_else(wrong)?;
        let entries: Option<Vec<&str>> = entries.iter().map(Value::as_str).collect();
        return Ok(Bypass::parse(&entries.ok_or_else(wrong)?.join(",")));
    }
    let shared = environment.value("no_proxy");
    let shared = shared.or_else(|| environment.value("NO_PROXY"));
    Ok(Bypass::parse(shared.unwrap_or_default()))
}

/// `SSL_CERT_FILE` and `SSL_CERT_DIR`.
fn roots(environment: &Environment) -> RootSources {
    let absolute = |path: PathBuf| environment.beside(&path);
    let file = environment.value("SSL_CERT_FILE").map(PathBuf::from);
    let directories = environment.value("SSL_CERT_DIR").unwrap_or_default();
    let directories = directories.split(':').filter(|path| !path.is_empty());
    RootSources {
        cert_file: file.map(absolute),
        cert_dirs: directories.map(PathBuf::from).map(absolute).collect(),
        ..RootSources::default()
    }
}

impl NetworkSettings {
    /// The same certificates, and those of `ca_file` if one is named.
    pub(crate) fn roots_with(&self, ca_file: Option<PathBuf>) -> Roots {
        match ca_file {
            None => self.roots.clone(),
            Some(_) => Roots::new(RootSources {
                ca_file,
                ..self.roots.sources().clone()
            }),
        }
    }
}

fn search(environment: &Environment, file: &ConfigFile) -> anyhow::Result<Option<SearchSettings>> {
    let value = |name: &str, key: &str| -> anyhow::Result<Option<String>> {
        let set = environment.value(name).map(str::to_owned);
        Ok(match set {
            Some(set) => Some(set),
            None => file.text("search", key)?.map(str::to_owned),
        })
    };
    let key = value("FASTNESS_SEARCH_KEY", "key")?.map(SearchKey::new);
    let url = value("FASTNESS_SEARCH_URL", "url")?;
    let Some(name) = value("FASTNESS_SEARCH_PROVIDER", "provider")? else {
        return Ok(None);
    };
    let keyed = |make: fn(SearchKey) -> SearchProvider| {
        let hint = "set FASTNESS_SEARCH_KEY, or `key` under [search]";
        let missing = || Failure::usage(format!("searching with {name} needs a key")).hint(hint);
        key.clone().map(make).ok_or_else(missing)
    };
    let provider = match name.as_str() {
        "brave" => keyed(SearchProvider::Brave)?,
        "tavily" => keyed(SearchProvider::Tavily)?,
        "searxng" if url.is_some() => SearchProvider::Searxng,
        "searxng" => {
            let hint = "set FASTNESS_SEARCH_URL, or `url` under [search]";
            let sentence = "searching with searxng needs the address of an instance";
            return Err(Failure::usage(sentence).hint(hint).into());
        }
        other => {
            let sentence = format!("there is no search provider `{other}`");
            let hint = "the providers are brave, tavily and searxng";
            return Err(Failure::usage(sentence).hint(hint).into());
        }
    };
    Ok(Some(SearchSettings { provider, url }))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::moment;

    #[test]
    fn a_date_or_a_time_with_its_zone_is_a_moment() {
        let seconds = |text: &str| {
            let since = moment(text)?.duration_since(UNIX_EPOCH).ok();
            since.as_ref().map(Duration::as_secs)
        };
        assert_eq!(seconds("1970-01-01"), Some(0));
        assert_eq!(seconds("2000-02-29"), Some(951_782_400));
        assert_eq!(seconds("2023-11-14T22:13:20Z"), Some(1_700_000_000));
        assert_eq!(seconds("2023-11-15T00:13:20+02:00"), Some(1_700_000_000));
        for wrong in [
            "",
            "soon",
            "2023-11-14T22:13:20",
            "22:13:20",
            "2023-02-30",
            "1969-12-31",
        ] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }
}
