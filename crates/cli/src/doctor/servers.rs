//! What `doctor` says of tool servers: each is started as a session would, and ended again.

use agent::project::Project;
use mcp::{Phase, ServerReport};

use super::{Check, State};
use crate::render::one_line;
use crate::servers;
use crate::settings::Settings;

/// A line for each tool server, and one for those that wait for an approval.
pub(super) async fn checks(settings: &Settings, project: Project) -> Vec<Check> {
    let waiting = project.servers_file.as_ref();
    let waiting = waiting.filter(|file| file.is_waiting()).map(|file| {
        let finding = format!("those of {} are not approved, and not used", file.path);
        let advice = "`fastness approve` shows what they are";
        Check::new("tool server", State::Noted, finding).advice(advice)
    });
    let mut checks: Vec<Check> = waiting.into_iter().collect();
    if project.servers.is_empty() {
        return checks;
    }
    match servers::tried(settings, project).await {
        Ok(reports) => checks.extend(reports.iter().map(of)),
        Err(error) => checks.push(Check::new("tool server", State::Broken, error.to_string())),
    }
    checks
}

fn of(report: &ServerReport) -> Check {
    let name = one_line(&report.name);
    match report.phase {
        Phase::Ready => {
            let finding = format!("{name} is ready, with {} tools", report.tools.len());
            Check::new("tool server", State::Fine, finding)
        }
        Phase::LoginNeeded => {
            let finding = format!("{name} wants a login");
            let advice = format!("`fastness mcp login {name}`");
            Check::new("tool server", State::Noted, finding).advice(advice)
        }
        Phase::Starting | Phase::BackingOff { .. } | Phase::Failed { .. } | Phase::Disabled => {
            let why = report.why.as_deref().unwrap_or("it is still starting");
            let finding = format!("{name} is not ready: {}", one_line(why));
            let place = one_line(&report.place);
            Check::new("tool server", State::Broken, finding).advice(format!(
                "does it work by itself ({place})? `fastness mcp list` tries again"
            ))
        }
    }
}
