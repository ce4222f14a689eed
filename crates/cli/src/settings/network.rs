//! What the operator decided about the network: what is open, through which proxy, who searches.

use std::time::{Duration, SystemTime};

use netguard::{Exception, Policy, Proxy};
use toml::Value;
use toml::value::{Datetime, Offset};
use tools::web::{SearchKey, SearchProvider};

use super::Environment;
use super::file::ConfigFile;
use crate::render::Failure;

/// What was set about the network.
#[derive(Clone, Debug)]
pub(crate) struct NetworkSettings {
    /// For addresses that a model or a user names.
    pub(crate) policy: Policy,
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
        proxy: proxy(environment, file)?,
        ..Policy::default()
    };
    Ok(NetworkSettings {
        policy,
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

fn proxy(environment: &Environment, file: &ConfigFile) -> anyhow::Result<Option<Proxy>> {
    const NAME: &str = "FASTNESS_NETWORK_PROXY";
    if let Some(text) = environment.value(NAME) {
        let read = text.parse::<Proxy>();
        let read = read.map_err(|error| Failure::usage(format!("{NAME}: {error}")))?;
        return Ok(Some(read));
    }
    let Some(text) = file.text("network", "proxy")? else {
        return Ok(None);
    };
    let read = text.parse::<Proxy>();
    Ok(Some(read.map_err(|error| {
        file.wrong(&format!("network.proxy: {error}"))
    })?))
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
